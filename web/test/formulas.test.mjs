// What the page reads from the catalogue: formulas that can be set, fields, examples; and the links it writes.
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
const ENTRIES = [...catalog.encodings, ...catalog.schedules, ...catalog.axes];

test('every formula can be set', () => {
  for (const { name, tex } of ENTRIES) {
    const options = { displayMode: true, throwOnError: true, strict: 'error', output: 'html' };
    const markup = katex.renderToString(tex, options);
    // KaTeX draws the tallest delimiters as pictures with inline styles, which the server's policy forbids.
    assert.doesNotMatch(markup, /<svg[^>]*style=/, name);
  }
});

test('every field has a control, and a slider stays within what the field allows', async () => {
  const { readField, sliderSpan } = await source('fields');
  for (const doc of ENTRIES.flatMap((entry) => entry.fields)) {
    const field = readField(doc, catalog);
    assert.equal(Number.isFinite(field.min) && Number.isFinite(field.max), doc.range.startsWith('in '), doc.name);
    const span = sliderSpan(field, 1);
    assert.ok(span.low >= field.min && span.high <= field.max, doc.name);
    if (doc.name === 'schedule') assert.equal(field.kind, 'variant');
  }
});

test('examples of lists fit the pairs of a head', async () => {
  const { exampleVariant } = await source('fields');
  const example = (name, headDim) => exampleVariant(ENTRIES.find((entry) => entry.name === name), headDim);
  assert.equal(example('learnable', 64), 'learnable');
  assert.deepEqual(example('linear', 64), { linear: { factor: 4 } });
  assert.deepEqual(example('mrope', 64), { mrope: { sections: [12, 10, 10] } });
  assert.deepEqual(example('longrope', 8), {
    longrope: { short_factor: [1, 1, 1, 1], long_factor: [1, 2, 3, 4], original_max_position_embeddings: 2048, factor: 4 },
  });
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
