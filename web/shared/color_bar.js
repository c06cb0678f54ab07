// The colour scale of heatmaps: a strip with two ends to drag, two numbers to type, and how it runs.
//
//   const bar = new ColorBar(element, {
//     extent: [0, 1],                       // what the strip spans: the data's least and greatest value
//     scale: { low: 0, high: 1, kind: 'linear' },
//     tables: { light, dark },
//     label: 'attention weight',
//     onChange: (scale) => maps.forEach((map) => map.setScale(scale)),
//   });
//   bar.set({ extent, scale, tables, label });  // for another map; does not call onChange
import { formatValue, scaleFraction, scaleValue } from './value_scale.js';
import { makeButton, makeElement, onThemeChange, pageIsDark } from './page_parts.js';

/** @typedef {import('./value_scale.js').ValueScale} ValueScale */
/** @typedef {import('./value_scale.js').ScaleKind} ScaleKind */
/** @typedef {import('./heatmap.js').ColorTables} ColorTables */

/**
 * @typedef {object} ColorBarOptions
 * @property {[number, number]} extent
 * @property {ValueScale} scale
 * @property {ColorTables} tables
 * @property {string} [label]
 * @property {(scale: ValueScale) => void} [onChange]
 */

/** @type {readonly ('low' | 'high')[]} */
const ENDS = ['low', 'high'];
/** @type {readonly ScaleKind[]} */
const KINDS = ['linear', 'sqrt', 'log'];

export class ColorBar {
  /**
   * @param {HTMLElement} container
   * @param {ColorBarOptions} options
   */
  constructor(container, options) {
    this.options = { ...options };
    this.scale = { ...options.scale };
    this.abort = new AbortController();
    this.root = makeElement('div', 'hm-scale', container);
    this.root.setAttribute('role', 'group');
    this.title = makeElement('span', 'hm-scale-label', this.root);
    this.inputs = { low: this.makeInput('low'), high: this.makeInput('high') };
    this.strip = makeElement('div', 'hm-strip');
    this.root.insertBefore(this.strip, this.inputs.high);
    this.canvas = makeElement('canvas', 'hm-strip-colors', this.strip);
    this.canvas.width = 256;
    this.canvas.height = 1;
    this.canvas.setAttribute('aria-hidden', 'true');
    this.handles = { low: this.makeHandle('low'), high: this.makeHandle('high') };
    this.kind = this.makeKinds();
    this.makeReset();
    onThemeChange(() => this.show(), this.abort.signal);
    this.show();
  }

  /** @param {Partial<ColorBarOptions>} changes */
  set(changes) {
    Object.assign(this.options, changes);
    if (changes.scale) this.scale = { ...changes.scale };
    this.show();
  }
  destroy() {
    this.abort.abort();
    this.root.remove();
  }

  /** The strip runs over all data, bent as the scale is. */
  whole() {
    const [low, high] = this.options.extent;
    return { low, high: high > low ? high : low + 1, kind: this.scale.kind };
  }
  /** @param {'low' | 'high'} end */
  makeInput(end) {
    const input = makeElement('input', 'hm-end', this.root);
    input.type = 'number';
    input.step = 'any';
    input.setAttribute('aria-label', `${end} end of the colours`);
    input.addEventListener('change', () => {
      const value = Number(input.value);
      if (input.value !== '' && Number.isFinite(value)) this.moveEnd(end, value);
      else this.show();
    });
    return input;
  }
  /** @param {'low' | 'high'} end */
  makeHandle(end) {
    const handle = makeElement('div', `hm-handle hm-handle-${end}`, this.strip);
    handle.tabIndex = 0;
    handle.setAttribute('role', 'slider');
    handle.setAttribute('aria-label', `${end} end of the colours`);
    handle.addEventListener('pointerdown', (event) => {
      handle.setPointerCapture(event.pointerId);
      event.preventDefault();
      handle.focus();
    });
    handle.addEventListener('pointermove', (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = this.strip.getBoundingClientRect();
      const at = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      this.moveEnd(end, scaleValue(this.whole(), at));
    });
    handle.addEventListener('keydown', (event) => {
      const step = { ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const at = scaleFraction(this.whole(), this.scale[end]) + step * (event.shiftKey ? 10 : 1);
      this.moveEnd(end, scaleValue(this.whole(), Math.min(1, Math.max(0, at))));
    });
    return handle;
  }
  makeKinds() {
    const select = makeElement('select', 'hm-kind', this.root);
    select.setAttribute('aria-label', 'how the colours run');
    for (const kind of KINDS) {
      const option = makeElement('option', '', select);
      option.value = kind;
      option.textContent = kind;
    }
    select.addEventListener('change', () => {
      this.change({ ...this.scale, kind: /** @type {ScaleKind} */ (select.value) });
    });
    return select;
  }
  makeReset() {
    makeButton(this.root, 'fit', 'colours over all values', () => {
      const [low, high] = this.options.extent;
      this.change({ ...this.scale, low, high });
    });
  }
  /**
   * The ends do not cross.
   * @param {'low' | 'high'} end
   * @param {number} value
   */
  moveEnd(end, value) {
    const other = this.scale[end === 'low' ? 'high' : 'low'];
    const crosses = end === 'low' ? value >= other : value <= other;
    if (crosses) return this.show();
    return this.change({ ...this.scale, [end]: value });
  }
  /** @param {ValueScale} scale */
  change(scale) {
    this.scale = scale;
    this.show();
    this.options.onChange?.({ ...scale });
  }
  show() {
    const whole = this.whole();
    this.title.textContent = this.options.label ?? '';
    this.root.setAttribute('aria-label', `colours: ${this.options.label ?? 'value'}`);
    this.kind.value = this.scale.kind;
    for (const end of ENDS) {
      const value = this.scale[end];
      this.inputs[end].value = formatValue(value);
      const handle = this.handles[end];
      handle.style.left = `${100 * scaleFraction(whole, value)}%`;
      handle.setAttribute('aria-valuenow', formatValue(value));
      handle.setAttribute('aria-valuemin', formatValue(whole.low));
      handle.setAttribute('aria-valuemax', formatValue(whole.high));
    }
    this.paintStrip(whole);
  }
  /** @param {ValueScale} whole */
  paintStrip(whole) {
    const table = this.options.tables[pageIsDark() ? 'dark' : 'light'];
    const image = new ImageData(256, 1);
    for (let i = 0; i < 256; ++i) {
      const entry = Math.round(255 * scaleFraction(this.scale, scaleValue(whole, i / 255)));
      image.data.set(table.subarray(3 * entry, 3 * entry + 3), 4 * i);
      image.data[4 * i + 3] = 255;
    }
    this.canvas.getContext('2d')?.putImageData(image, 0, 0);
  }
}
