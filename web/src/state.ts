// What is shown, and the link that says it: #view=decay&spec=rope&spec=alibi&length=512. Defaults are
// left out, so that a link stays short and says what its sender chose.
import type { Field } from './fields';
import type { Fields, Json } from './messages';

export interface State {
  view: string;
  specs: string[] | null; // null: the view's own examples
  values: Fields; // of the view's fields, where they differ from its defaults
}

export type FieldLookup = (name: string) => Field | undefined;

const LISTS = new Set(['numbers', 'integers', 'words']);

export function encodeState(state: State): string {
  const parameters = new URLSearchParams();
  parameters.set('view', state.view);
  for (const spec of state.specs ?? []) parameters.append('spec', spec);
  for (const [name, value] of Object.entries(state.values)) {
    if (!Array.isArray(value)) parameters.set(name, String(value));
    else if (value.length === 0) parameters.set(name, '');
    else for (const item of value) parameters.append(name, String(item));
  }
  // Readable in the address bar: these stand for themselves in a fragment.
  return parameters
    .toString()
    .replace(/%(28|29|2C|3A|5B|5D)/g, (code) => decodeURIComponent(code));
}

function readValue(field: Field, texts: string[]): Json {
  if (LISTS.has(field.kind)) {
    const items = texts.filter((text) => text !== '');
    return field.kind === 'words' ? items : items.map(Number).filter(Number.isFinite);
  }
  const text = texts[0] ?? '';
  if (field.kind === 'boolean') return text === 'true';
  if (field.kind === 'number' || field.kind === 'integer') {
    return text === 'null' || text === '' ? null : Number(text);
  }
  return text;
}

/** The state of a link; what it does not know, it leaves out. */
export function decodeState(hash: string, lookup: FieldLookup, views: string[]): State {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const view = parameters.get('view') ?? '';
  const specs = parameters.getAll('spec');
  const values: Fields = {};
  for (const name of new Set(parameters.keys())) {
    const field = lookup(name);
    if (field === undefined || name === 'view' || name === 'spec') continue;
    const value = readValue(field, parameters.getAll(name));
    if (typeof value !== 'number' || Number.isFinite(value)) values[name] = value;
  }
  return {
    view: views.includes(view) ? view : (views[0] ?? ''),
    specs: specs.length > 0 ? specs : null,
    values,
  };
}

export function sameValue(a: Json | undefined, b: Json | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
