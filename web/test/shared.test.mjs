// What the heatmap computes, without a browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { colorCells, colorPixels, mapDifference, mapExtent, mapOfBytes, poolMap } from '../shared/map_data.js';
import { MapState } from '../shared/map_state.js';
import { cellName } from '../shared/map_axes.js';
import { formatValue, roundTicks, scaleFraction, scaleValue, shortNumber } from '../shared/value_scale.js';

test('a scale and its inverse agree, for every kind and sign', () => {
  for (const kind of ['linear', 'sqrt', 'log']) {
    for (const [low, high] of [[0, 1], [-2, 1], [0.1, 10], [-3, -1]]) {
      const scale = { low, high, kind };
      for (const fraction of [0, 0.25, 0.5, 1]) {
        const back = scaleFraction(scale, scaleValue(scale, fraction));
        assert.ok(Math.abs(back - fraction) < 1e-9, `${kind} ${low} ${high} ${fraction}: ${back}`);
      }
      assert.equal(scaleFraction(scale, high + 1), 1);
      assert.ok(Number.isNaN(scaleFraction(scale, NaN)));
    }
  }
});

test('values are read with four digits, whatever their size', () => {
  assert.equal(formatValue(0.1234567), '0.1235');
  assert.equal(formatValue(0.25), '0.25');
  assert.equal(formatValue(0.00001234), '1.23e-5');
  assert.equal(formatValue(12345678), '1.23e7');
  assert.equal(formatValue(0), '0');
  assert.equal(formatValue(NaN), 'masked');
  assert.deepEqual([NaN, null, Infinity, 1e6].map(shortNumber), ['–', '–', '∞', '1e6']);
});

test('ticks are round numbers between the ends', () => {
  assert.deepEqual(roundTicks(0.07, 0.42, 5), [0.1, 0.2, 0.3, 0.4]);
  assert.deepEqual(roundTicks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
});

test('the program embeds the uPlot that the explorer bundles', () => {
  const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8');
  for (const name of ['uPlot.iife.min.js', 'uPlot.min.css']) {
    assert.equal(read(`../vendor/uplot/${name}`), read(`../node_modules/uplot/dist/${name}`));
  }
});

test('bytes are values again, and 0 is masked', () => {
  const map = mapOfBytes([0, 1, 128, 255], 2, 2, { low: 0, high: 0.5, gamma: 2 });
  assert.ok(Number.isNaN(map.values[0]));
  assert.equal(map.values[1], 0);
  assert.ok(Math.abs(map.values[2] - 0.125) < 1e-7);
  assert.equal(map.values[3], 0.5);
  assert.deepEqual(mapExtent(map), [0, 0.5]);
});

test('no spike is lost by pooling, and masks stay masks', () => {
  const values = new Float32Array(64 * 64).fill(NaN);
  for (let r = 0; r < 64; ++r) for (let c = 0; c <= r; ++c) values[64 * r + c] = 0.1;
  values[64 * 37 + 5] = 9;
  const map = { rows: 64, columns: 64, values };
  const small = poolMap(map, 3, 3, false);
  assert.equal(small.rows, 8);
  assert.equal(small.values[8 * 4 + 0], 9);
  assert.ok(Number.isNaN(small.values[8 * 0 + 7]));
  assert.equal(small.values.filter((v) => v === 9).length, 1);
  values[64 * 37 + 6] = -20;
  assert.equal(poolMap(map, 3, 3, true).values[8 * 4], -20, 'by magnitude where values are signed');
  const odd = poolMap({ rows: 3, columns: 5, values: new Float32Array(15).fill(1) }, 1, 1, false);
  assert.deepEqual([odd.rows, odd.columns], [2, 3]);
});

test('cells get the colours of their values', () => {
  const table = new Uint8Array(768);
  for (let i = 0; i < 256; ++i) table[3 * i] = i;
  const map = { rows: 1, columns: 5, values: Float32Array.of(-1, 0, 0.5, 1, NaN) };
  const pixels = new Uint32Array(5);
  const all = { top: 0, left: 0, rows: 1, columns: 5 };
  const reds = () => [...new Uint8Array(pixels.buffer)].filter((_, i) => i % 4 === 0);
  colorCells(map, all, { low: 0, high: 1, kind: 'linear' }, colorPixels(table), pixels);
  assert.deepEqual(reds(), [0, 0, 128, 255, 0]);
  assert.equal(pixels[4], 0, 'masked is transparent');
  colorCells(map, all, { low: 0, high: 1, kind: 'sqrt' }, colorPixels(table), pixels);
  assert.equal(reds()[2], 180);
});

test('differences are masked where either map is', () => {
  const a = { rows: 1, columns: 3, values: Float32Array.of(1, NaN, 3) };
  const b = { rows: 1, columns: 3, values: Float32Array.of(0.5, 1, NaN) };
  assert.deepEqual([...mapDifference(a, b).values], [0.5, NaN, NaN]);
});

test('zooming keeps the point under the pointer, and never leaves the map', () => {
  const state = new MapState(100, 200);
  state.zoomBy(4, 0.25, 0.5);
  assert.equal(state.left + 0.25 * state.spanColumns, 50);
  assert.equal(state.top + 0.5 * state.spanRows, 50);
  state.panBy(1000, -1000);
  assert.equal(state.left, 150);
  assert.equal(state.top, 0);
  state.zoomBy(1e9);
  assert.equal(state.spanColumns, 4);
  state.reset();
  assert.deepEqual([state.zoom, state.left, state.top], [1, 0, 0]);
});

test('the cursor moves by cells, the view follows, pins come and go', () => {
  const state = new MapState(10, 10);
  const changes = [];
  state.subscribe((change) => changes.push(change));
  state.zoomBy(2, 0, 0);
  state.moveCursor(0, 1);
  assert.deepEqual(state.cursor, { row: 2, column: 2 });
  for (let i = 0; i < 20; ++i) state.moveCursor(1, 0);
  assert.deepEqual(state.cursor, { row: 9, column: 2 });
  assert.equal(state.top, 5);
  state.togglePin({ row: 9, column: 2 });
  state.togglePin({ row: 1, column: 1 });
  state.togglePin({ row: 9, column: 2 });
  assert.deepEqual(state.pins, [{ row: 1, column: 1 }]);
  state.unpinLast();
  assert.equal(state.pins.length, 0);
  state.togglePin({ row: 9, column: 9 });
  state.reshape(5, 5);
  assert.equal(state.pins.length, 0, 'a cell of another map');
  assert.ok(changes.includes('view') && changes.includes('cursor') && changes.includes('pins'));
});

test('cells have names', () => {
  assert.equal(cellName({ label: 'query', words: ['the', 'cat'] }, 'row', 1), 'query 1 ‘cat’');
  assert.equal(cellName({ label: 'key', names: ['0–1 ‘the cat’'] }, 'column', 0), 'key 0–1 ‘the cat’');
  assert.equal(cellName({ begin: -4, step: 0.5 }, 'row', 3), 'row -2.5');
  assert.equal(cellName(undefined, 'column', 7), 'column 7');
});
