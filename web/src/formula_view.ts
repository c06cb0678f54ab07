// The formulas of a spec, set by KaTeX: the sum they take part in, and one card per term.
import katex from 'katex';
import { make } from './dom';
import { variantParts } from './fields';
import { ATTENTION, AXES, ENCODINGS, SCHEDULES, type Formula } from './formulas';
import type { Catalog, Entry, Term } from './messages';

function setFormula(formula: Formula): HTMLElement {
  const line = make('div', { class: 'formula', tabindex: 0 });
  katex.render(formula.tex, line, { displayMode: true, throwOnError: false, output: 'html' });
  line.setAttribute('role', 'math');
  line.setAttribute('aria-label', formula.tex);
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

function card(entry: Entry, formula: Formula | undefined, title: string): HTMLElement {
  const element = make('section', { class: 'formula-card', 'data-formula': entry.name });
  element.append(make('h3', {}, title));
  if (formula !== undefined) {
    element.append(setFormula(formula), make('p', { class: 'where' }, formula.where));
  }
  return element;
}

function termCards(term: Term, catalog: Catalog): HTMLElement[] {
  const entry = catalog.encodings.find((e) => e.name === term.name);
  if (entry === undefined) return [];
  const main = card(entry, ENCODINGS[entry.name], `${entry.name}: ${entry.title}`);
  main.append(properties(entry), make('p', { class: 'paper' }, entry.paper));
  const cards = [main];
  for (const [field, entries, formulas] of [
    ['schedule', catalog.schedules, SCHEDULES],
    ['axes', catalog.axes, AXES],
  ] as const) {
    const value = term.fields[field];
    if (value === undefined || value === null) continue;
    const { name } = variantParts(value);
    const chosen = entries.find((e) => e.name === name);
    if (chosen === undefined || name === 'single') continue;
    const part = card(chosen, formulas[name], `${field} ${name}: ${chosen.title}`);
    if (chosen.paper !== '') part.append(make('p', { class: 'paper' }, chosen.paper));
    cards.push(part);
  }
  return cards;
}

/** Fills `home` with the formulas of a spec's terms. */
export function showFormulas(home: HTMLElement, terms: Term[], catalog: Catalog): void {
  const none: Term = { name: 'none', fields: {} };
  const shown = terms.length > 0 ? terms : [none];
  const sum = make('section', { class: 'formula-card formula-sum' }, make('h3', {}, 'Where position enters'));
  sum.append(setFormula(ATTENTION), make('p', { class: 'where' }, ATTENTION.where));
  home.replaceChildren(...shown.flatMap((term) => termCards(term, catalog)), sum);
}
