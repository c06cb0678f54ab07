// The catalogue's field list, read: what kind of control a field needs, and what it allows.
import type { Catalog, Entry, FieldDoc, Json } from './messages';

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
  openMin: boolean;
  even: boolean;
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

interface Limits {
  min: number;
  max: number;
  openMin: boolean;
}

/** "in (0, 2]", ">= 1", "> 0" or "<= 4"; anything goes where the text is empty. */
export function readRange(range: string): Limits {
  const number = '(-?[0-9.]+(?:e[+-]?[0-9]+)?)';
  const both = new RegExp(`^in ([[(])${number}, ${number}\\]`).exec(range);
  if (both) return { min: Number(both[2]), max: Number(both[3]), openMin: both[1] === '(' };
  const one = new RegExp(`^(>=|>|<=) ${number}`).exec(range);
  if (one === null) return { min: -Infinity, max: Infinity, openMin: false };
  if (one[1] === '<=') return { min: -Infinity, max: Number(one[2]), openMin: false };
  return { min: Number(one[2]), max: Infinity, openMin: one[1] === '>' };
}

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
    ...readRange(doc.range),
    even: doc.range.endsWith('even'),
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
