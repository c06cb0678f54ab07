// The specs on show: each as text that can be edited, and the chosen one taken apart into terms, with a
// control per field. The library reads and writes the text; nothing here knows an encoding by name.
import { foldAdvanced, makeControl } from './controls';
import { button, debounce, make } from './dom';
import type { Engine } from './engine';
import { defaultValue, exampleVariant, type Field, readField, variantParts } from './fields';
import { type Catalog, failed, type Fields, type Json, type SpecInfo, type Term } from './messages';

export interface EditorOptions {
  home: HTMLElement;
  engine: Engine;
  catalog: Catalog;
  palette: () => string[];
  headDim: () => number;
  onChange: (specs: string[], settled: boolean) => void;
  onActive: (terms: Term[]) => void;
}

export class SpecEditor {
  private specs: string[] = [];
  private active = 0;
  private info: SpecInfo | null = null;
  private readonly list = make('ol', { class: 'spec-list' });
  private readonly terms = make('div', { class: 'terms', id: 'terms' });
  private turn = 0;

  constructor(private readonly options: EditorOptions) {
    options.home.append(this.list, this.terms);
  }

  /** Shows these specs. Controls are made again only if the text has changed. */
  async set(specs: string[]): Promise<void> {
    const same = specs.join('\n') === this.specs.join('\n');
    this.specs = [...specs];
    this.active = Math.min(this.active, Math.max(0, specs.length - 1));
    if (same && this.info !== null) return;
    this.showList();
    await this.readActive();
  }
  focusText(): void {
    this.list.querySelector<HTMLInputElement>('.spec-active input')?.focus();
  }

  private change(settled: boolean): void {
    this.options.onChange([...this.specs], settled);
  }
  private textOf(index: number): string {
    return this.specs[index] ?? '';
  }

  // --- the list of specs ---------------------------------------------------------------------------

  private showList(): void {
    this.list.replaceChildren(...this.specs.map((spec, i) => this.specRow(spec, i)));
    const add = button('+ compare with another', 'add a spec to this view', () => this.addSpec(), 'button add-spec');
    add.id = 'add-spec';
    this.list.append(make('li', {}, add));
  }
  private specRow(spec: string, index: number): HTMLElement {
    const row = make('li', { class: index === this.active ? 'spec spec-active' : 'spec' });
    const dot = make('span', { class: 'legend-dot', 'aria-hidden': 'true' });
    dot.style.background = this.options.palette()[index % 8] ?? '#888';
    const text = make('input', {
      type: 'text',
      id: `spec-${index}`,
      class: 'spec-text',
      spellcheck: 'false',
      autocomplete: 'off',
      'aria-label': `spec ${index + 1}`,
      'aria-describedby': `spec-error-${index}`,
    });
    text.value = spec;
    text.title = spec;
    const error = make('p', { class: 'error', id: `spec-error-${index}`, role: 'status' });
    const read = debounce(250, () => void this.readText(index, text, error));
    text.addEventListener('focus', () => void this.choose(index));
    text.addEventListener('input', read);
    row.append(make('div', { class: 'spec-line' }, dot, text), error);
    if (this.specs.length > 1) {
      const remove = button('×', `remove spec ${index + 1}`, () => this.removeSpec(index), 'button remove');
      row.firstElementChild?.append(remove);
    }
    return row;
  }
  private async readText(index: number, input: HTMLInputElement, error: HTMLElement): Promise<void> {
    const answer = await this.options.engine.spec(input.value);
    const bad = failed(answer);
    input.setAttribute('aria-invalid', String(bad));
    error.textContent = bad ? answer.error : '';
    if (failed(answer)) return;
    this.specs[index] = answer.text;
    input.title = answer.text;
    if (index === this.active) this.showTerms(answer);
    this.change(true);
  }
  private async choose(index: number): Promise<void> {
    if (index === this.active) return;
    this.active = index;
    this.list.querySelectorAll('.spec').forEach((row, i) => row.classList.toggle('spec-active', i === index));
    await this.readActive();
  }
  private addSpec(): void {
    const next = this.options.catalog.encodings.find((e) => e.name === 'rope' && !this.specs.includes('rope'));
    this.specs.push(next?.name ?? 'alibi');
    this.active = this.specs.length - 1;
    this.showList();
    void this.readActive();
    this.change(true);
  }
  private removeSpec(index: number): void {
    this.specs.splice(index, 1);
    this.active = Math.min(this.active, this.specs.length - 1);
    this.showList();
    void this.readActive();
    this.change(true);
  }

  // --- the terms of the chosen spec ----------------------------------------------------------------

  private async readActive(): Promise<void> {
    const turn = ++this.turn;
    const answer = await this.options.engine.spec(this.textOf(this.active));
    if (turn !== this.turn) return;
    if (failed(answer)) {
      const error = document.getElementById(`spec-error-${this.active}`);
      if (error !== null) error.textContent = answer.error;
      this.info = null;
      this.terms.replaceChildren();
    } else {
      this.showTerms(answer);
    }
  }
  private showTerms(info: SpecInfo): void {
    this.info = info;
    this.options.onActive(info.terms);
    const cards = info.terms.map((term, i) => this.termCard(term, i));
    this.terms.replaceChildren(...cards, this.termAdder());
  }
  private termAdder(): HTMLElement {
    const select = make('select', { id: 'add-term', 'aria-label': 'add a term to the spec' });
    select.append(make('option', { value: '' }, '+ add a term …'));
    for (const entry of this.options.catalog.encodings) {
      if (entry.name !== 'none') select.append(make('option', { value: entry.name }, `+ ${entry.name}: ${entry.title}`));
    }
    select.addEventListener('change', () => {
      if (select.value === '' || this.info === null) return;
      void this.writeTerms([...this.info.terms, { name: select.value, fields: {} }], true, true);
    });
    return select;
  }

  private termCard(term: Term, index: number): HTMLElement {
    const { catalog } = this.options;
    const entry = catalog.encodings.find((e) => e.name === term.name);
    const card = make('fieldset', { class: 'term', 'data-term': term.name });
    card.append(make('legend', {}, this.termChooser(term, index)));
    const remove = button('×', `take ${term.name} out of the spec`, () => this.removeTerm(index), 'button remove');
    card.append(remove);
    const fields = (entry?.fields ?? []).map((doc) => readField(doc, catalog));
    card.append(...foldAdvanced(fields, 'more fields', (field) => this.fieldControls(field, index, term.fields)));
    return card;
  }
  private termChooser(term: Term, index: number): HTMLElement {
    const select = make('select', { class: 'term-name', id: `term-${index}`, 'aria-label': `term ${index + 1}` });
    for (const entry of this.options.catalog.encodings) {
      if (entry.name !== 'none') select.append(make('option', { value: entry.name }, entry.name));
    }
    select.value = term.name;
    select.addEventListener('change', () => {
      const terms = this.copyTerms();
      terms[index] = { name: select.value, fields: {} };
      void this.writeTerms(terms, true, true);
    });
    return select;
  }

  private fieldControls(field: Field, index: number, fields: Fields): HTMLElement[] {
    const value = fields[field.name] ?? null;
    const id = `term-${index}-${field.name}`;
    if (field.kind !== 'variant') {
      return [
        makeControl({
          field,
          id,
          value,
          onInput: (next, settled) => this.setField(index, field.name, next, settled),
        }),
      ];
    }
    const { name, fields: inner } = variantParts(value);
    const chooser = makeControl({
      field,
      id,
      value: name,
      onInput: (next) => this.setField(index, field.name, this.startVariant(field, String(next)), true, true),
    });
    return [chooser, ...this.innerControls(field, index, name, inner)];
  }
  // The fields of a schedule: written ones have a value, the others their defaults.
  private innerControls(outer: Field, index: number, name: string, inner: Fields): HTMLElement[] {
    const docs = outer.entries.find((entry) => entry.name === name)?.fields ?? [];
    const fields = docs.map((doc) => readField(doc, this.options.catalog));
    return foldAdvanced(fields, `more fields of ${name}`, (field) => {
      const control = makeControl({
        field,
        id: `term-${index}-${outer.name}-${field.name}`,
        value: inner[field.name] ?? defaultValue(field),
        onInput: (next, settled) => {
          const now = variantParts(this.copyTerms()[index]?.fields[outer.name] ?? name).fields;
          this.setField(index, outer.name, { [name]: { ...now, [field.name]: next } }, settled);
        },
      });
      control.classList.add('inner');
      return [control];
    });
  }
  private startVariant(field: Field, name: string): Json {
    const entry = field.entries.find((e) => e.name === name);
    return entry === undefined ? name : exampleVariant(entry, this.options.headDim());
  }

  private copyTerms(): Term[] {
    return structuredClone(this.info?.terms ?? []);
  }
  private setField(index: number, name: string, value: Json, settled: boolean, rebuild = false): void {
    const terms = this.copyTerms();
    const term = terms[index];
    if (term === undefined) return;
    term.fields[name] = value;
    void this.writeTerms(terms, settled, rebuild);
  }
  private removeTerm(index: number): void {
    void this.writeTerms(this.copyTerms().filter((_, i) => i !== index), true, true);
  }

  /** Asks the library for the text of these terms; its objections stand below the text. */
  private async writeTerms(terms: Term[], settled: boolean, rebuild: boolean): Promise<void> {
    const turn = ++this.turn;
    const written = terms.length === 0 ? '"none"' : JSON.stringify(terms.map((t) => ({ [t.name]: t.fields })));
    const answer = await this.options.engine.spec(written);
    if (turn !== this.turn) return;
    const error = document.getElementById(`spec-error-${this.active}`);
    if (error !== null) error.textContent = failed(answer) ? answer.error : '';
    if (failed(answer)) return;
    this.specs[this.active] = answer.text;
    const text = document.getElementById(`spec-${this.active}`) as HTMLInputElement | null;
    if (text !== null) [text.value, text.title] = [answer.text, answer.text];
    text?.setAttribute('aria-invalid', 'false');
    if (rebuild) this.showTerms(answer);
    else {
      this.info = answer;
      this.options.onActive(answer.terms);
    }
    this.change(settled);
  }
}
