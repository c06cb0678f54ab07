// One control per field: a slider with a number beside it, a list of choices, a box to tick, a line to
// type into. Each tells its new value and nothing else.
import { make } from './dom';
import { type Field, sliderSpan } from './fields';
import type { Json, Span } from './messages';

export interface ControlOptions {
  field: Field;
  id: string;
  value: Json;
  highest?: number; // of a slider, where a view allows less than the field
  onInput: (value: Json, settled: boolean) => void; // settled: not in the midst of a drag
}

const STEPS = 1000;

export function numberText(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  return String(Number(value.toPrecision(10)));
}

function toFraction(span: Span, value: number): number {
  if (span.log) return Math.log(Math.max(value, span.low) / span.low) / Math.log(span.high / span.low);
  return (value - span.low) / (span.high - span.low);
}

/** The value at a fraction of the slider, rounded to what a person would type. */
export function fromFraction(span: Span, fraction: number, field: Pick<Field, 'kind' | 'even'>): number {
  const value = span.log
    ? span.low * (span.high / span.low) ** fraction
    : span.low + (span.high - span.low) * fraction;
  if (field.even) return 2 * Math.round(value / 2);
  if (field.kind === 'integer') return Math.round(value < 100 ? value : Number(value.toPrecision(3)));
  return Number(value.toPrecision(3));
}

function frame(options: ControlOptions, ...parts: HTMLElement[]): HTMLElement {
  const { field, id } = options;
  const label = make('label', { for: id }, field.name.replaceAll('_', ' '));
  const hint = field.range === '' ? field.doc : `${field.doc} (${field.range})`;
  const row = make('div', { class: `field field-${field.kind}`, title: hint }, label, ...parts);
  row.append(make('p', { class: 'field-doc', id: `${id}-doc` }, field.doc));
  return row;
}

function numberControl(options: ControlOptions): HTMLElement {
  const { field, id } = options;
  const value = typeof options.value === 'number' ? options.value : NaN;
  const span = sliderSpan(field, value, options.highest);
  const box = make('input', { type: 'number', id, step: 'any', class: 'number', 'aria-describedby': `${id}-doc` });
  const slider = make('input', {
    type: 'range',
    min: 0,
    max: STEPS,
    step: 1,
    id: `${id}-slider`,
    'aria-label': field.name,
  });
  const show = (v: number): void => {
    box.value = Number.isNaN(v) ? '' : numberText(v);
    slider.value = String(Math.round(STEPS * Math.min(1, Math.max(0, Number.isNaN(v) ? 0 : toFraction(span, v)))));
  };
  show(value);
  if (field.nullable) box.placeholder = 'none';
  const slid = (settled: boolean): void => {
    const next = fromFraction(span, Number(slider.value) / STEPS, field);
    box.value = numberText(next);
    options.onInput(next, settled);
  };
  slider.addEventListener('input', () => slid(false));
  slider.addEventListener('change', () => slid(true));
  box.addEventListener('change', () => {
    if (box.value === '' && field.nullable) return options.onInput(null, true);
    if (box.value === '' || !Number.isFinite(Number(box.value))) return show(value);
    show(Number(box.value));
    return options.onInput(Number(box.value), true);
  });
  return frame(options, slider, box);
}

function choiceControl(options: ControlOptions): HTMLElement {
  const select = make('select', { id: options.id, 'aria-describedby': `${options.id}-doc` });
  for (const choice of options.field.choices) select.append(make('option', { value: choice }, choice));
  select.value = String(options.value);
  select.addEventListener('change', () => options.onInput(select.value, true));
  return frame(options, select);
}

function tickControl(options: ControlOptions): HTMLElement {
  const box = make('input', { type: 'checkbox', id: options.id, 'aria-describedby': `${options.id}-doc` });
  box.checked = options.value === true;
  box.addEventListener('change', () => options.onInput(box.checked, true));
  return frame(options, box);
}

/** "1, 2, 3" as numbers, or null where it is something else. */
export function readNumbers(text: string): number[] | null {
  const parts = text.split(/[\s,;]+/).filter((part) => part !== '');
  const numbers = parts.map(Number);
  return numbers.every(Number.isFinite) ? numbers : null;
}

function listControl(options: ControlOptions): HTMLElement {
  const list = Array.isArray(options.value) ? options.value : [options.value];
  const box = make('input', {
    type: 'text',
    id: options.id,
    inputmode: 'decimal',
    placeholder: 'chosen for you',
    'aria-describedby': `${options.id}-doc`,
  });
  box.value = list.filter((v) => v !== null).join(', ');
  box.addEventListener('change', () => {
    const numbers = readNumbers(box.value);
    box.setAttribute('aria-invalid', String(numbers === null));
    if (numbers !== null) options.onInput(numbers, true);
  });
  return frame(options, box);
}

function wordsControl(options: ControlOptions): HTMLElement {
  const { field } = options;
  const list = Array.isArray(options.value) ? options.value : [options.value];
  const box = make('textarea', { id: options.id, rows: Math.max(list.length, field.name === 'text' ? 3 : 1), spellcheck: 'false' });
  box.value = list.filter((v) => v !== null).join('\n');
  box.title = 'one a line';
  const tell = (settled: boolean): void =>
    options.onInput(box.value.split('\n').map((line) => line.trim()).filter((line) => line !== ''), settled);
  box.addEventListener('input', () => tell(false));
  box.addEventListener('change', () => tell(true));
  return frame(options, box);
}

export function makeControl(options: ControlOptions): HTMLElement {
  switch (options.field.kind) {
    case 'number':
    case 'integer':
      return numberControl(options);
    case 'enum':
    case 'variant':
      return choiceControl(options);
    case 'boolean':
      return tickControl(options);
    case 'numbers':
      // One number is the common case and deserves a slider; several are typed.
      return typeof options.value === 'number' ? numberControl(options) : listControl(options);
    case 'integers':
      return listControl(options);
    case 'words':
    case 'word':
      return wordsControl(options);
  }
}

/** The controls of fields; those that few need are folded away below the others. */
export function foldAdvanced<F extends { advanced: boolean }>(
  fields: F[],
  summary: string,
  controls: (field: F) => HTMLElement[],
): HTMLElement[] {
  const shown = fields.filter((field) => !field.advanced).flatMap(controls);
  const rare = fields.filter((field) => field.advanced).flatMap(controls);
  if (rare.length > 0) shown.push(make('details', { class: 'rare' }, make('summary', {}, summary), ...rare));
  return shown;
}
