// Every name of the catalogue has a formula, and every formula can be set.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';
import katex from 'katex';
import { POSENC, ROOT } from './support.mjs';

const out = join(ROOT, 'build/web/test');
mkdirSync(out, { recursive: true });

async function source(name) {
  const outfile = join(out, `${name}.mjs`);
  await build({ entryPoints: [join(ROOT, 'web/src', `${name}.ts`)], bundle: true, format: 'esm', outfile, logLevel: 'error' });
  return import(outfile);
}

const catalog = JSON.parse(execFileSync(POSENC, ['list', '--json'], { encoding: 'utf8' }));
const formulas = await source('formulas');

for (const [title, entries, table] of [
  ['encoding', catalog.encodings, formulas.ENCODINGS],
  ['schedule', catalog.schedules, formulas.SCHEDULES],
  ['kind of axes', catalog.axes, formulas.AXES],
]) {
  test(`every ${title} has a formula, and no formula is left over`, () => {
    assert.deepEqual(Object.keys(table).sort(), entries.map((entry) => entry.name).sort());
    for (const [name, formula] of Object.entries(table)) {
      const options = { displayMode: true, throwOnError: true, strict: 'error', output: 'html' };
      const markup = katex.renderToString(formula.tex, options);
      // KaTeX draws the tallest delimiters as pictures with inline styles, which the server's policy forbids.
      assert.doesNotMatch(markup, /<svg[^>]*style=/, name);
      assert.notEqual(formula.where, '');
    }
  });
}

test('ranges of fields are read as the library writes them', async () => {
  const { readRange, readField } = await source('fields');
  assert.deepEqual(readRange('in (1, 1e+18]'), { min: 1, max: 1e18, openMin: true });
  assert.deepEqual(readRange('in [-0.5, 2] and even'), { min: -0.5, max: 2, openMin: false });
  assert.deepEqual(readRange('>= 1'), { min: 1, max: Infinity, openMin: false });
  assert.deepEqual(readRange(''), { min: -Infinity, max: Infinity, openMin: false });
  for (const entry of [...catalog.encodings, ...catalog.schedules, ...catalog.axes]) {
    for (const doc of entry.fields) {
      const field = readField(doc, catalog);
      if (doc.range !== '') assert.ok(Number.isFinite(field.min) || Number.isFinite(field.max), doc.name);
      if (doc.name === 'schedule') assert.equal(field.kind, 'variant');
    }
  }
});

test('a state comes back from its link', async () => {
  const { encodeState, decodeState } = await source('state');
  const fields = { length: 'integer', theta: 'numbers', text: 'words', causal: 'boolean', content: 'enum' };
  const lookup = (name) => (name in fields ? { name, kind: fields[name] } : undefined);
  for (const state of [
    { view: 'decay', specs: null, values: {} },
    { view: 'bias', specs: ['rope(theta=5e5) + alibi', 'fire'], values: { length: 64, causal: false } },
    { view: 'bias', specs: ['none'], values: { theta: [1, 2.5], text: ['a & b = c', 'ü #%'], content: 'random' } },
    { view: 'bias', specs: null, values: { theta: [] } },
  ]) {
    assert.deepEqual(decodeState(`#${encodeState(state)}`, lookup, ['decay', 'bias']), state);
  }
  const odd = decodeState('#view=nonsense&length=x&unknown=3&%%%', lookup, ['decay', 'bias']);
  assert.deepEqual(odd, { view: 'decay', specs: null, values: {} });
});
