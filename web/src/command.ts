// The same figure on the command line: posenc plot KIND with what was chosen.
import type { Fields, Json } from './messages';

function quoted(text: string): string {
  return /^[A-Za-z0-9_.,:+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function words(name: string, value: Json): string[] {
  if (name === 'encodings' && Array.isArray(value)) return value.flatMap((v) => ['--encoding', quoted(String(v))]);
  const option = `--${name.replaceAll('_', '-')}`;
  if (!Array.isArray(value)) return value === null ? [] : [option, quoted(String(value))];
  if (value.some((v) => typeof v === 'string')) return value.flatMap((v) => [option, quoted(String(v))]);
  return [option, value.length === 0 ? "''" : value.join(',')];
}

export function plotCommand(kind: string, fields: Fields): string {
  const options = Object.entries(fields).flatMap(([name, value]) => words(name, value));
  return ['posenc plot', kind, ...options].join(' ');
}
