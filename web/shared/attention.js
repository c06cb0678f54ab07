// The attention of models on one example: a map per head, and of two models side by side their difference.
//
//   const view = new AttentionView(element, { sequential, diverging });
//   await view.setRecords(records);   // what page_maps.h writes; none: nothing is shown
import { ColorBar } from './color_bar.js';
import { Heatmap } from './heatmap.js';
import { mapDifference, mapExtent } from './map_data.js';
import { paintThumbnail } from './map_png.js';
import { MapState } from './map_state.js';
import { makeElement, onThemeChange, pageIsDark } from './page_parts.js';
import { exampleTitle, headMaps, headName, instructionRegions, loadMap, tokenAxis } from './attention_data.js';

/** @typedef {import('./heatmap.js').ColorTables} ColorTables */
/** @typedef {import('./map_data.js').MapData} MapData */
/** @typedef {import('./value_scale.js').ValueScale} ValueScale */
/** @typedef {import('./attention_data.js').AttentionRecord} AttentionRecord */
/** @typedef {import('./attention_data.js').MapKind} MapKind */

const THUMBNAIL = 64; // pixels
const MOST_TOKENS = 400; // that are written out above the maps
/** @type {Record<MapKind, string>} */
const KIND_NAMES = {
  weights: 'attention weight',
  gates: 'CoPE gate',
  positions: 'CoPE position',
};

/** @param {Element} parent @param {string} id @param {string} label @param {() => void} action */
function makeChoice(parent, id, label, action) {
  const wrapper = makeElement('label', 'choice', parent);
  makeElement('span', '', wrapper, label);
  const select = makeElement('select', '', wrapper);
  select.id = id;
  select.addEventListener('change', action);
  return select;
}

/** @param {HTMLSelectElement} select @param {[string, string][]} options value and text @param {string} [chosen] */
function fillChoice(select, options, chosen) {
  select.replaceChildren();
  for (const [value, text] of options) makeElement('option', '', select, text).value = value;
  if (chosen !== undefined && options.some(([value]) => value === chosen)) select.value = chosen;
  select.closest('label')?.toggleAttribute('hidden', options.length < 2);
}

export class AttentionView {
  /** @param {HTMLElement} root @param {{sequential: ColorTables, diverging: ColorTables}} tables */
  constructor(root, tables) {
    this.root = root;
    /** @type {AttentionRecord[]} */
    this.records = [];
    this.tables = tables;
    this.layer = 0;
    this.head = 0;
    this.state = new MapState(1, 1);
    /** @type {Map<string, Heatmap>} */
    this.maps = new Map();
    /** @type {ColorBar[]} */
    this.bars = [];
    this.drawing = Promise.resolve();
    this.controls = makeElement('div', 'controls', root);
    this.example = makeChoice(this.controls, 'attention-example', 'Example', () => this.showExample());
    this.left = makeChoice(this.controls, 'attention-left', 'Left', () => this.show());
    this.right = makeChoice(this.controls, 'attention-right', 'Right', () => this.show());
    this.kind = makeChoice(this.controls, 'attention-kind', 'Show', () => this.show());
    this.sentence = makeElement('div', 'tokens', root);
    this.thumbnails = makeElement('div', 'thumbnails', root);
    this.bar = makeElement('div', 'bars', root);
    this.panels = makeElement('div', 'panels', root);
    onThemeChange(() => void this.showThumbnails());
  }

  /** @param {AttentionRecord[]} records */
  setRecords(records) {
    this.records = records;
    this.root.hidden = records.length === 0;
    fillChoice(this.example, [...new Map(records.map((r) => [r.key, exampleTitle(r.example)]))]);
    return this.showExample();
  }

  /** Records of the chosen example. */
  candidates() {
    return this.records.filter((record) => record.key === this.example.value);
  }
  /** @param {HTMLSelectElement} select */
  recordOf(select) {
    return this.candidates()[Number(select.value)];
  }

  showExample() {
    const candidates = this.candidates();
    /** @type {[string, string][]} */
    const names = candidates.map((record, i) => [String(i), record.name]);
    fillChoice(this.left, names, '0');
    fillChoice(this.right, names, candidates.length > 1 ? '1' : '0');
    this.layer = 0;
    this.head = 0;
    if (candidates.length > 0) this.showSentence(candidates[0]);
    return this.show();
  }
  /** @param {AttentionRecord} record */
  showSentence(record) {
    const { tokens, instruction, scored, length } = record.example;
    this.sentence.replaceChildren();
    const line = makeElement('p', 'sentence', this.sentence);
    tokens.slice(0, MOST_TOKENS).forEach((token, i) => {
      const marked = i >= instruction[0] && i < instruction[1];
      makeElement(marked ? 'mark' : 'span', '', line, token).title = `token ${i}`;
      line.append(' ');
    });
    if (length > MOST_TOKENS) line.append(`… (${length} tokens)`);
    const answers = scored.length > 0 ? `; ${scored.length} scored answers` : '';
    const marked = instruction[0] < instruction[1] ? '; the instruction is marked' : '';
    makeElement('p', 'soft', this.sentence, exampleTitle(record.example) + marked + answers);
  }

  /** Shows what is chosen; one showing after the other. */
  show() {
    this.drawing = this.drawing.then(() => this.draw());
    return this.drawing;
  }
  async draw() {
    const left = this.recordOf(this.left);
    const right = this.recordOf(this.right);
    if (!left) return this.clear();
    this.layer = Math.min(this.layer, left.layers.length - 1);
    this.head = Math.min(this.head, left.heads - 1);
    this.showKinds(left, right);
    await this.showThumbnails();
    const kind = /** @type {MapKind} */ (this.kind.value);
    const [a, b] = await Promise.all([
      loadMap(left, this.layer, this.head, kind),
      loadMap(right, this.layer, this.head, kind),
    ]);
    this.showMaps(left, right, a, b, kind);
  }
  /** @param {AttentionRecord} left @param {AttentionRecord} right */
  showKinds(left, right) {
    const kinds = /** @type {MapKind[]} */ (Object.keys(KIND_NAMES)).filter(
      (kind) => headMaps(left, this.layer, kind) || headMaps(right, this.layer, kind),
    );
    fillChoice(
      this.kind,
      kinds.map((kind) => [kind, `${KIND_NAMES[kind]}s`]),
      this.kind.value,
    );
  }

  // --- thumbnails -----------------------------------------------------------------------------------

  async showThumbnails() {
    const record = this.recordOf(this.left);
    if (!record) return;
    const grid = makeElement('div', 'thumbnail-grid');
    grid.style.setProperty('--heads', String(record.heads));
    const tasks = record.layers.map(async (_, layer) => {
      for (let head = 0; head < record.heads; ++head) {
        const map = await loadMap(record, layer, head, 'weights');
        const button = this.thumbnail(record, layer, head, map);
        button.style.gridArea = `${layer + 1} / ${head + 1}`;
        grid.append(button);
      }
    });
    await Promise.all(tasks);
    const title = makeElement('p', 'soft', null, `${record.name}: layers (down) and heads (across); choose one`);
    this.thumbnails.replaceChildren(title, grid);
  }
  /** @param {AttentionRecord} record @param {number} layer @param {number} head @param {MapData | undefined} map */
  thumbnail(record, layer, head, map) {
    const button = makeElement('button', 'thumbnail');
    button.type = 'button';
    const name = headName(record, layer, head);
    button.title = name;
    button.setAttribute('aria-label', name);
    button.dataset.layer = String(layer);
    button.dataset.head = String(head);
    button.setAttribute('aria-pressed', String(layer === this.layer && head === this.head));
    const canvas = makeElement('canvas', '', button);
    if (map) {
      const scale = { low: 0, high: mapExtent(map)[1], kind: /** @type {const} */ ('sqrt') };
      const table = this.tables.sequential[pageIsDark() ? 'dark' : 'light'];
      paintThumbnail(canvas, map, scale, table, THUMBNAIL);
    }
    button.addEventListener('click', () => this.choose(layer, head));
    return button;
  }
  /** @param {number} layer @param {number} head */
  async choose(layer, head) {
    this.layer = layer;
    this.head = head;
    await this.show();
    const chosen = this.thumbnails.querySelector('[aria-pressed=true]');
    if (chosen instanceof HTMLElement) chosen.focus();
  }

  // --- maps -----------------------------------------------------------------------------------------

  clear() {
    for (const map of this.maps.values()) map.destroy();
    for (const bar of this.bars) bar.destroy();
    this.maps.clear();
    this.bars = [];
    this.panels.replaceChildren();
  }
  /**
   * @param {AttentionRecord} left
   * @param {AttentionRecord} right
   * @param {MapData | undefined} a
   * @param {MapData | undefined} b
   * @param {MapKind} kind
   */
  showMaps(left, right, a, b, kind) {
    this.clear();
    const both = left !== right;
    const high = Math.max(...[a, b].map((map) => (map ? mapExtent(map)[1] : 0)));
    /** @type {ValueScale} */
    const scale = { low: 0, high: high || 1, kind: kind === 'weights' ? 'sqrt' : 'linear' };
    const { sequential, diverging } = this.tables;
    this.addPanel('left', left, a, { scale, tables: sequential, unit: KIND_NAMES[kind] });
    if (both) this.addPanel('right', right, b, { scale, tables: sequential, unit: KIND_NAMES[kind] });
    const plain = [this.maps.get('left'), this.maps.get('right')];
    this.addBar([0, high || 1], scale, sequential, KIND_NAMES[kind], plain);
    if (!both || !a || !b || a.rows !== b.rows) return;
    const difference = mapDifference(b, a);
    const [low, top] = mapExtent(difference);
    const reach = Math.max(-low, top) || 1;
    const about = { low: -reach, high: reach, kind: /** @type {const} */ ('linear') };
    const title = `${right.name} − ${left.name}`;
    this.addPanel('difference', right, difference, {
      scale: about,
      tables: diverging,
      unit: `difference of ${KIND_NAMES[kind]}s`,
      signed: true,
      title,
    });
    this.addBar([-reach, reach], about, diverging, 'difference', [this.maps.get('difference')]);
  }
  /**
   * @param {string} id
   * @param {AttentionRecord} record
   * @param {MapData | undefined} data
   * @param {{scale: ValueScale, tables: ColorTables, unit: string, signed?: boolean, title?: string}} look
   */
  addPanel(id, record, data, look) {
    const panel = makeElement('section', 'panel', this.panels);
    panel.dataset.panel = id;
    const title = look.title ?? record.name;
    makeElement('h3', '', panel, title);
    if (!data) {
      makeElement('p', 'empty', panel, `${headName(record, this.layer, this.head)} has no such map`);
      return;
    }
    const label = `${title}: ${look.unit}, ${headName(record, this.layer, this.head)}`;
    const map = new Heatmap(panel, {
      data,
      scale: look.scale,
      tables: look.tables,
      unit: look.unit,
      signed: look.signed ?? false,
      rows: tokenAxis(record, 'query'),
      columns: tokenAxis(record, 'key'),
      regions: instructionRegions(record),
      label,
      state: this.state,
    });
    this.maps.set(id, map);
  }
  /**
   * @param {[number, number]} extent
   * @param {ValueScale} scale
   * @param {ColorTables} tables
   * @param {string} label
   * @param {(Heatmap | undefined)[]} maps
   */
  addBar(extent, scale, tables, label, maps) {
    const onChange = (/** @type {ValueScale} */ next) => maps.forEach((map) => map?.setScale(next));
    this.bars.push(new ColorBar(this.bar, { extent, scale, tables, label, onChange }));
  }
}
