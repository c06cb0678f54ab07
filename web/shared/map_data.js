// Maps as numbers: made from bytes, pooled, coloured. Nothing here touches the page but ImageData.
import { scaleWarp } from './value_scale.js';

/** @typedef {import('./value_scale.js').ValueScale} ValueScale */

/**
 * Row-major; NaN is masked and not painted.
 * @typedef {{rows: number, columns: number, values: Float32Array}} MapData
 */

/**
 * What the bytes of a grey picture stand for: 0 is masked, byte b from 1 to 255 is
 * low + (high - low) ((b - 1) / 254)^gamma.
 * @typedef {{low: number, high: number, gamma?: number}} ByteScale
 */

/**
 * @param {ArrayLike<number>} bytes
 * @param {number} rows
 * @param {number} columns
 * @param {ByteScale} scale
 * @returns {MapData}
 */
export function mapOfBytes(bytes, rows, columns, scale) {
  const values = new Float32Array(256).fill(NaN);
  for (let b = 1; b < 256; ++b) {
    values[b] = scale.low + (scale.high - scale.low) * ((b - 1) / 254) ** (scale.gamma ?? 1);
  }
  const out = new Float32Array(rows * columns);
  for (let i = 0; i < out.length; ++i) out[i] = values[bytes[i]];
  return { rows, columns, values: out };
}

/**
 * Least and greatest value; [0, 1] where all is masked.
 * @param {MapData} map
 * @returns {[number, number]}
 */
export function mapExtent(map) {
  let low = Infinity;
  let high = -Infinity;
  for (const v of map.values) {
    if (v < low) low = v;
    if (v > high) high = v;
  }
  return low <= high ? [low, high] : [0, 1];
}

/**
 * The cell-wise difference a - b of two maps of one shape.
 * @param {MapData} a
 * @param {MapData} b
 * @returns {MapData}
 */
export function mapDifference(a, b) {
  const values = new Float32Array(a.values.length);
  for (let i = 0; i < values.length; ++i) values[i] = a.values[i] - b.values[i];
  return { rows: a.rows, columns: a.columns, values };
}

/**
 * Blocks of 2^rowShift x 2^columnShift cells become one: their greatest value, so that spikes survive;
 * where values are signed, the one of the greatest magnitude.
 * @param {MapData} map
 * @param {number} rowShift
 * @param {number} columnShift
 * @param {boolean} signed
 * @returns {MapData}
 */
export function poolMap(map, rowShift, columnShift, signed) {
  const rows = ((map.rows - 1) >> rowShift) + 1;
  const columns = ((map.columns - 1) >> columnShift) + 1;
  const out = new Float32Array(rows * columns).fill(NaN);
  const from = map.values;
  let i = 0;
  for (let r = 0; r < map.rows; ++r) {
    const row = (r >> rowShift) * columns;
    for (let c = 0; c < map.columns; ++c, ++i) {
      const v = from[i];
      const o = row + (c >> columnShift);
      const best = out[o];
      // The second test lets the first number replace NaN.
      if ((signed ? Math.abs(v) > Math.abs(best) : v > best) || best !== best) out[o] = v;
    }
  }
  return { rows, columns, values: out };
}

/** Pooled forms of a map, each computed once. */
export class PooledMaps {
  /**
   * @param {MapData} map
   * @param {boolean} signed
   */
  constructor(map, signed) {
    this.map = map;
    this.signed = signed;
    /** @type {Map<string, MapData>} */
    this.levels = new Map();
  }
  /**
   * @param {number} rowShift
   * @param {number} columnShift
   */
  level(rowShift, columnShift) {
    if (rowShift === 0 && columnShift === 0) return this.map;
    const key = `${rowShift} ${columnShift}`;
    let level = this.levels.get(key);
    if (level === undefined) {
      level = poolMap(this.map, rowShift, columnShift, this.signed);
      this.levels.set(key, level);
    }
    return level;
  }
}

/**
 * @param {Record<'light' | 'dark', string>} entry 256 colours of 3 bytes, as base64
 * @returns {{light: Uint8Array, dark: Uint8Array}}
 */
export function colorTables(entry) {
  const bytes = (/** @type {string} */ text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return { light: bytes(entry.light), dark: bytes(entry.dark) };
}

/**
 * 256 colours, 3 bytes each, as pixels of an ImageData on this machine.
 * @param {Uint8Array} table
 */
export function colorPixels(table) {
  const bytes = new Uint8ClampedArray(1024);
  for (let i = 0; i < 256; ++i) {
    bytes.set(table.subarray(3 * i, 3 * i + 3), 4 * i);
    bytes[4 * i + 3] = 255;
  }
  return new Uint32Array(bytes.buffer);
}

/** @typedef {{top: number, left: number, rows: number, columns: number}} CellWindow */

/**
 * Colours a window of a map, a pixel per cell, row-major. Masked cells stay transparent.
 * @param {MapData} map
 * @param {CellWindow} window
 * @param {ValueScale} scale
 * @param {Uint32Array} colors from colorPixels
 * @param {Uint32Array} out window.rows * window.columns pixels
 */
export function colorCells(map, window, scale, colors, out) {
  const warp = scaleWarp(scale);
  const linear = scale.kind === 'linear';
  const low = warp(scale.low);
  const span = warp(scale.high) - low;
  const step = span > 0 ? 255 / span : 0;
  let o = 0;
  for (let r = 0; r < window.rows; ++r) {
    let i = (window.top + r) * map.columns + window.left;
    for (let c = 0; c < window.columns; ++c, ++i, ++o) {
      const v = map.values[i];
      if (v !== v) {
        out[o] = 0;
        continue;
      }
      const t = ((linear ? v : warp(v)) - low) * step + 0.5;
      out[o] = colors[t <= 0 ? 0 : t >= 255 ? 255 : t | 0];
    }
  }
}
