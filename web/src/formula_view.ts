// The formulas of a spec, set by KaTeX: the sum they take part in, and one card per term.
import katex from 'katex';
import { make } from './dom';
import { variantParts } from './fields';
import type { Catalog, Entry, Term } from './messages';
import { encodingLink, paperLine } from './page_links';

/** The four places where position enters attention; include/posenc/posenc.h states the same. */
const ATTENTION = {
  tex: String.raw`s_{ij} = \underbrace{\tfrac{1}{\sqrt d}\,\langle T(i)\,q_i,\; T(j)\,k_j\rangle}_{\text{query/key}} + \underbrace{B(h, i, j)}_{\text{bias}} + \underbrace{C(q_i, r_{i\cdot}, i, j)}_{\text{content}}, \qquad q_i, k_i, v_i \leftarrow x_i = \text{token}_i + \underbrace{E(i)}_{\text{input}}`,
  where: 'The score of query i with key j. A spec is a list of terms, each at one of the four places.',
};

function setFormula(tex: string): HTMLElement {
  const line = make('div', { class: 'formula', tabindex: 0 });
  katex.render(tex, line, { displayMode: true, throwOnError: false, output: 'html' });
  line.setAttribute('role', 'math');
  line.setAttribute('aria-label', tex);
  return line;
}

function properties(entry: Entry): HTMLElement {
  const list = make('ul', { class: 'traits' });
  const say = (yes: boolean, text: string): void => list.append(make('li', { class: yes ? 'yes' : 'no' }, text));
  list.append(make('li', { class: 'site' }, entry.site === 'none' ? 'nowhere' : entry.site));
  say(entry.relative, entry.relative ? 'relative' : 'absolute');
  say(entry.extrapolates, entry.extrapolates ? 'defined at any length' : 'ends at its table');
  say(entry.linear_attention, entry.linear_attention ? 'linear attention' : 'needs all scores');
  return list;
}

function card(entry: Entry, title: string): HTMLElement {
  const element = make('section', { class: 'formula-card', 'data-formula': entry.name });
  element.append(make('h3', {}, title), setFormula(entry.tex), make('p', { class: 'where' }, entry.where));
  return element;
}

function termCards(term: Term, catalog: Catalog): HTMLElement[] {
  const entry = catalog.encodings.find((e) => e.name === term.name);
  if (entry === undefined) return [];
  const main = card(entry, `${entry.name}: ${entry.title}`);
  main.append(properties(entry), paperLine(entry.paper), ...encodingLink(entry.name));
  const cards = [main];
  for (const [field, entries] of [
    ['schedule', catalog.schedules],
    ['axes', catalog.axes],
  ] as const) {
    const value = term.fields[field];
    if (value === undefined || value === null) continue;
    const { name } = variantParts(value);
    const chosen = entries.find((e) => e.name === name);
    if (chosen === undefined || name === 'single') continue;
    const part = card(chosen, `${field} ${name}: ${chosen.title}`);
    if (chosen.paper !== '') part.append(paperLine(chosen.paper));
    cards.push(part);
  }
  return cards;
}

/** Fills `home` with the formulas of a spec's terms. */
export function showFormulas(home: HTMLElement, terms: Term[], catalog: Catalog): void {
  const none: Term = { name: 'none', fields: {} };
  const shown = terms.length > 0 ? terms : [none];
  const sum = make('section', { class: 'formula-card formula-sum' }, make('h3', {}, 'Where position enters'));
  sum.append(setFormula(ATTENTION.tex), make('p', { class: 'where' }, ATTENTION.where));
  home.replaceChildren(...shown.flatMap((term) => termCards(term, catalog)), sum);
}
