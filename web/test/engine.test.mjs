// The WebAssembly module against the program: the same figures, number for number.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { csvDifference, plotCsv, ROOT } from './support.mjs';

const WASM = join(ROOT, 'build/web/wasm');
const { default: createPosenc } = await import(join(WASM, 'posenc.mjs'));
const posenc = await createPosenc({ wasmBinary: readFileSync(join(WASM, 'posenc.wasm')) });

function withText(text, use) {
  const size = posenc.lengthBytesUTF8(text) + 1;
  const at = posenc._malloc(size);
  posenc.stringToUTF8(text, at, size);
  const result = use(at);
  posenc._free(at);
  return result;
}
const read = (at) => JSON.parse(posenc.UTF8ToString(at));
const spec = (text) => withText(text, (at) => read(posenc._posenc_web_spec(at)));
const catalog = read(posenc._posenc_web_catalog());

function plot(request, withCsv = true) {
  const figure = withText(JSON.stringify(request), (at) => posenc._posenc_web_plot(at));
  const description = read(posenc._posenc_web_describe(figure));
  const numbers = withCsv && !('error' in description);
  const csv = numbers ? posenc.UTF8ToString(posenc._posenc_web_csv(figure, -1)) : '';
  posenc._posenc_web_free(figure);
  return { description, csv };
}

// t-SNE doubles a difference of the last bit many times over; a few steps keep it small.
const GENTLE = { tsne: { iterations: 50 } };

for (const kind of catalog.plots) {
  test(`${kind.name} has the program's numbers`, () => {
    const extra = GENTLE[kind.name] ?? {};
    const { csv, description } = plot({ kind: kind.name, ...extra });
    assert.equal(description.error, undefined);
    const options = Object.entries(extra).flatMap(([name, value]) => [`--${name}`, String(value)]);
    assert.equal(csvDifference(csv, plotCsv([kind.name, ...options]), kind.name === 'tsne' ? 1e-6 : 1e-12), '');
  });
}

const COMPOSITIONS = [
  ['bias', ['alibi + kerple(kernel=power)', 'fire(width=8) + t5(bidirectional=true, init_std=1)', 'relative(init_std=1)']],
  ['scores', ['rope(theta=500000, schedule=yarn(factor=4, original_max_position_embeddings=256)) + alibi + cope']],
  ['similarity', ['xpos(gamma=0.8)', 'sinusoidal(spacing=tensor2tensor)', 'rope(rotary_dim=32)']],
];
for (const [kind, encodings] of COMPOSITIONS) {
  test(`${kind} of ${encodings.join(' and ')} has the program's numbers`, () => {
    const { csv, description } = plot({ kind, encodings });
    assert.equal(description.error, undefined);
    const options = encodings.flatMap((encoding) => ['--encoding', encoding]);
    assert.equal(csvDifference(csv, plotCsv([kind, ...options])), '');
  });
}

test('a comparison of CSV notices a changed number, a word and a missing row', () => {
  const text = 'panel,kind,name,x,y,value,low,high\na,curve,b,1,2,,,\n';
  assert.equal(csvDifference(text, text), '');
  assert.notEqual(csvDifference(text, text.replace('1,2', '1,2.00000001')), '');
  assert.notEqual(csvDifference(text, text.replace('b', 'c')), '');
  assert.notEqual(csvDifference(text, text.split('\n')[0]), '');
});

test('a spec is read and written as the library has it', () => {
  const { text, hash, terms } = spec('alibi + rope( theta = 5e5 )');
  assert.equal(text, 'alibi + rope(theta=500000)');
  assert.match(hash, /^[0-9a-f]{16}$/);
  assert.deepEqual(terms.map((term) => term.name), ['alibi', 'rope']);
  assert.equal(terms[1].fields.theta, 500000);
  assert.equal(spec(JSON.stringify(terms.map((t) => ({ [t.name]: t.fields })))).text, text);
});

test('mistakes come back as one line that names them', () => {
  assert.match(spec('rope(thta=3)').error, /^\[rope\] thta .*theta/);
  assert.match(spec('rope(theta=').error, /^\[spec\] /);
  assert.match(plot({ kind: 'decai' }).description.error, /decay/);
  assert.match(plot({ kind: 'decay', length: 1e9 }).description.error, /length/);
  assert.match(plot({ kind: 'clocks', encodings: ['alibi'] }).description.error, /alibi/);
  for (const { error } of [spec(''), spec('\u0000'), spec('['), spec('🙂')]) assert.equal(typeof error, 'string');
});

test('memory does not grow with the number of figures', () => {
  const request = { kind: 'bias', encodings: ['alibi'], length: 1024 };
  plot(request, false);
  const before = posenc.HEAPU8.length;
  for (let i = 0; i < 30; ++i) plot(request, false);
  assert.equal(posenc.HEAPU8.length, before);
});
