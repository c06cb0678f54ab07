// The catalogue's field list, read: what kind of control a field needs, and what it allows.
import type { Catalog, Entry, FieldDoc, Json, Span } from './messages';

export type FieldKind =
  | 'number'
  | 'integer'
  | 'boolean'
  | 'enum'
  | 'variant'
  | 'numbers'
  | 'integers'
  | 'words'
  | 'word';

export interface Field {
  name: string;
  kind: FieldKind;
  doc: string;
  range: string;
  min: number;
  max: number;
  even: boolean;
  advanced: boolean;
  usual: Span | null;
  nullable: boolean;
  required: boolean;
  choices: string[];
  /** Of a variant: the configs that its choices name. */
  entries: Entry[];
  fallback: string;
}

const KINDS: Record<string, FieldKind> = {
  number: 'number',
  'number or null': 'number',
  integer: 'integer',
  'true or false': 'boolean',
  'number or list': 'numbers',
  'integer or list': 'integers',
  'word or list': 'words',
  word: 'word',
};

function kindOf(type: string, entries: Entry[]): FieldKind {
  if (type.startsWith('one of ')) return entries.length > 0 ? 'variant' : 'enum';
  const kind = KINDS[type];
  if (kind === undefined) throw new Error(`the page does not know fields of type '${type}'`);
  return kind;
}

export function readField(doc: FieldDoc, catalog: Catalog): Field {
  const choices = doc.type.startsWith('one of ') ? doc.type.slice(7).split(', ') : [];
  const same = (entries: Entry[]): boolean => entries.map((e) => e.name).join() === choices.join();
  const entries = [catalog.schedules, catalog.axes].find(same) ?? [];
  return {
    name: doc.name,
    kind: kindOf(doc.type, entries),
    doc: doc.doc,
    range: doc.range,
    min: doc.min ?? -Infinity,
    max: doc.max ?? Infinity,
    even: doc.even,
    advanced: doc.advanced,
    usual: doc.usual,
    nullable: doc.type.endsWith('or null'),
    required: doc.default === 'required',
    choices,
    entries,
    fallback: doc.default,
  };
}

/** The default that a field's documentation names; null where it is required or absent. */
export function defaultValue(field: Field): Json {
  if (field.required || field.fallback === 'null') return null;
  if (field.kind === 'boolean') return field.fallback === 'true';
  if (field.fallback === '[]') return [];
  const number = Number(field.fallback);
  return Number.isNaN(number) ? field.fallback : number;
}

/** A variant's value, "linear" or {"linear": {...}}, taken apart. */
export function variantParts(value: Json): { name: string; fields: Record<string, Json> } {
  if (typeof value === 'string') return { name: value, fields: {} };
  const [name, fields] = Object.entries(value as Record<string, Json>)[0] ?? ['', {}];
  return { name, fields: fields as Record<string, Json> };
}

/** Where the slider of a field runs: its usual range, or one about its value, within what the field allows. */
export function sliderSpan(field: Field, value: number, highest = Infinity): Span {
  const near = Math.abs(value) > 0 ? Math.abs(value) : 1;
  const usual = field.usual ?? { low: near / 16, high: near * 16, log: true };
  const low = Math.max(usual.low, field.min);
  const high = Math.min(usual.high, field.max, highest);
  return { low, high, log: usual.log && low > 0 };
}

/** The example of a field; a list is stretched to the pairs of a head. */
function exampleOf(doc: FieldDoc, pairs: number): Json {
  if (!Array.isArray(doc.example) || doc.pairs === 'unrelated') return doc.example;
  const list = doc.example.map(Number);
  if (doc.pairs === 'sum') {
    const sum = (numbers: number[]): number => numbers.reduce((a, b) => a + b, 0);
    const shares = list.map((share) => Math.floor((pairs * share) / sum(list)));
    const left = pairs - sum(shares);
    return shares.map((share, i) => (i === 0 ? share + left : share));
  }
  const [first = 1, last = first] = list;
  const at = (i: number): number => first + ((last - first) * i) / Math.max(1, pairs - 1);
  return Array.from({ length: pairs }, (_, i) => Number(at(i).toFixed(3)));
}

/** What a variant begins with when its entry is chosen, for heads of so many channels. */
export function exampleVariant(entry: Entry, headDim: number): Json {
  const pairs = Math.max(1, Math.floor(headDim / 2));
  const given = entry.fields.filter((doc) => doc.example !== null);
  if (given.length === 0) return entry.name;
  return { [entry.name]: Object.fromEntries(given.map((doc) => [doc.name, exampleOf(doc, pairs)])) };
}
