// Maps that came as grey pictures, and small pictures of maps.
import { PooledMaps, colorCells, colorPixels } from './map_data.js';

/** @typedef {import('./map_data.js').MapData} MapData */
/** @typedef {import('./value_scale.js').ValueScale} ValueScale */

/**
 * The bytes of an 8-bit grey PNG, given as a data: URI.
 * @param {string} uri
 * @returns {Promise<{width: number, height: number, bytes: Uint8Array}>}
 */
export async function decodeGreyPng(uri) {
  const image = new Image();
  image.src = uri;
  await image.decode();
  const canvas = document.createElement('canvas');
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (!context) throw new Error('this browser has no canvas');
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const bytes = new Uint8Array(canvas.width * canvas.height);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = data[4 * i];
  return { width: canvas.width, height: canvas.height, bytes };
}

/**
 * A map as small as the canvas, pooled by its greatest values.
 * @param {HTMLCanvasElement} canvas is given at most `size` pixels a side
 * @param {MapData} map
 * @param {ValueScale} scale
 * @param {Uint8Array} table
 * @param {number} size
 * @param {boolean} [signed]
 */
export function paintThumbnail(canvas, map, scale, table, size, signed = false) {
  let shift = 0;
  while (Math.max(map.rows, map.columns) >> shift > size) ++shift;
  const small = new PooledMaps(map, signed).level(shift, shift);
  const image = new ImageData(small.columns, small.rows);
  const all = { top: 0, left: 0, rows: small.rows, columns: small.columns };
  colorCells(small, all, scale, colorPixels(table), new Uint32Array(image.data.buffer));
  canvas.width = small.columns;
  canvas.height = small.rows;
  canvas.getContext('2d')?.putImageData(image, 0, 0);
}
