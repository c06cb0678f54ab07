// Attention records as src/show/report/page_maps.h writes them, and their maps as numbers.
import { mapOfBytes } from './map_data.js';
import { decodeGreyPng } from './map_png.js';

/** @typedef {import('./map_data.js').MapData} MapData */
/** @typedef {import('./map_axes.js').AxisInfo} AxisInfo */
/** @typedef {'weights' | 'gates' | 'positions'} MapKind */
/** @typedef {{kind: MapKind, gamma: number, highs: number[], png: string}} HeadMaps */
/** @typedef {{position: number, expected: string, predicted: string}} ScoredPlace */
/**
 * @typedef {object} Example
 * @property {string} task
 * @property {string} [axis] of an evaluation; a text has none
 * @property {number} length
 * @property {number} sample
 * @property {number} step
 * @property {[number, number]} instruction
 * @property {string[]} tokens
 * @property {ScoredPlace[]} scored
 */
/**
 * @typedef {object} AttentionRecord
 * @property {string} name
 * @property {string} run
 * @property {string} key alike where maps can be laid over each other
 * @property {number} cells a side of every map
 * @property {number} heads
 * @property {number[]} [layer_numbers] where not all layers are there
 * @property {number[]} [head_numbers]
 * @property {Example} example
 * @property {{encoding: string, maps: HeadMaps[]}[]} layers
 */

/** @type {WeakMap<HeadMaps, Promise<{width: number, height: number, bytes: Uint8Array}>>} */
const decodedPictures = new WeakMap();

/** @param {AttentionRecord} record @param {number} layer @param {MapKind} kind @returns {HeadMaps | undefined} */
export function headMaps(record, layer, kind) {
  return record.layers[layer]?.maps.find((maps) => maps.kind === kind);
}

/**
 * One head's map; undefined where the record has none.
 * @param {AttentionRecord} record
 * @param {number} layer
 * @param {number} head
 * @param {MapKind} kind
 * @returns {Promise<MapData | undefined>}
 */
export async function loadMap(record, layer, head, kind) {
  const maps = headMaps(record, layer, kind);
  if (!maps || head >= record.heads) return undefined;
  let picture = decodedPictures.get(maps);
  if (!picture) {
    picture = decodeGreyPng(maps.png);
    decodedPictures.set(maps, picture);
  }
  const { width, bytes } = await picture;
  const size = record.cells * width;
  const scale = { low: 0, high: maps.highs[head], gamma: maps.gamma };
  return mapOfBytes(bytes.subarray(head * size, (head + 1) * size), record.cells, width, scale);
}

/**
 * Tokens of a record as an axis; a pooled cell stands for several.
 * @param {AttentionRecord} record
 * @param {string} label
 * @returns {AxisInfo}
 */
export function tokenAxis(record, label) {
  const { cells, example } = record;
  const words = [];
  const names = [];
  for (let i = 0; i < cells; ++i) {
    const begin = Math.floor((i * example.length) / cells);
    const end = Math.floor(((i + 1) * example.length) / cells);
    const tokens = example.tokens.slice(begin, end);
    words.push(tokens.length > 1 ? `${tokens[0]}…` : tokens[0]);
    const numbers = end - begin > 1 ? `${begin}–${end - 1}` : `${begin}`;
    const scored = label === 'query' && example.scored.find(({ position }) => position >= begin && position < end);
    const answer = scored ? ` (answer ${scored.expected}, the model says ${scored.predicted})` : '';
    names.push(`${numbers} ‘${tokens.join(' ')}’${answer}`);
  }
  return { label, words, names, begin: 0, step: example.length / cells };
}

/** @param {AttentionRecord} record */
export function instructionRegions(record) {
  const [begin, end] = record.example.instruction;
  if (begin >= end) return [];
  const scale = record.cells / record.example.length;
  return [{ begin: begin * scale, end: end * scale, label: 'instruction' }];
}

/** @param {Example} example */
export function exampleTitle(example) {
  const { task, axis, length, sample } = example;
  return axis === undefined ? `${task}, ${length} tokens` : `${task}, axis ${axis}, ${length} tokens, sample ${sample}`;
}

/** @param {AttentionRecord} record @param {number} layer @param {number} head */
export function headName(record, layer, head) {
  return `layer ${record.layer_numbers?.[layer] ?? layer}, head ${record.head_numbers?.[head] ?? head}`;
}
