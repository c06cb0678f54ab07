// A heatmap on canvas.
//
//   const map = new Heatmap(element, {
//     data: { rows, columns, values },          // Float32Array, NaN masked; mapOfBytes makes one of bytes
//     tables: { light, dark },                  // 256 colours of 3 bytes each
//     scale: { low, high, kind: 'linear' },     // or 'sqrt', 'log'; readouts show values, not colours
//     rows: { label: 'query', words },          // axes: label, words, names, begin, step
//     columns: { label: 'key', words },
//     regions: [{ begin, end, label }],         // stretches of tokens, marked on both axes
//     label: 'attention of layer 0, head 1',    // what a screen reader calls it
//     unit: 'weight',
//     signed: false,                            // pool by magnitude, for differences
//     state,                                    // a MapState, where several maps move together
//   });
//   map.setData(data, { rows, columns, regions, label }); map.setScale(scale); map.setTables(tables);
//   map.toCanvas();                             // a picture with its axes, for a download
//   map.paintMilliseconds;                      // of the last painting
//   map.destroy();
//
// Mouse: the wheel zooms about the pointer, dragging pans, a double click shows all, a click pins a cell.
// Keys: arrows move the cursor (with Shift: the view), + and - zoom, 0 shows all, Enter or Space pins,
// Escape takes the last pin away. A button per pinned cell takes that pin away.
//
// A painting colours only what is in view, at most a cell per pixel; larger maps are pooled to that by
// their greatest values. So its cost is bounded by the screen, not by the map.
import { formatValue } from './value_scale.js';
import { PooledMaps, colorCells, colorPixels } from './map_data.js';
import { MapState } from './map_state.js';
import { MapInput, ZOOM_STEP } from './map_input.js';
import { makeButton, makeElement, onThemeChange, pageInks, pageIsDark } from './page_parts.js';
import { cellName, drawAxes, drawCrosshair, drawRegions, mapMargins } from './map_axes.js';

/** @typedef {import('./value_scale.js').ValueScale} ValueScale */
/** @typedef {import('./map_data.js').MapData} MapData */
/** @typedef {import('./map_state.js').Cell} Cell */
/** @typedef {import('./map_axes.js').AxisInfo} AxisInfo */
/** @typedef {import('./map_axes.js').MarkedRegion} MarkedRegion */
/** @typedef {import('./map_axes.js').PlotArea} PlotArea */
/** @typedef {{light: Uint8Array, dark: Uint8Array}} ColorTables */

/**
 * @typedef {object} HeatmapOptions
 * @property {MapData} data
 * @property {ColorTables} tables
 * @property {ValueScale} scale
 * @property {AxisInfo} [rows]
 * @property {AxisInfo} [columns]
 * @property {MarkedRegion[]} [regions]
 * @property {string} [label]
 * @property {string} [unit]
 * @property {boolean} [signed]
 * @property {MapState} [state]
 * @property {number} [height] of the painted area in pixels; without it cells are square
 * @property {number} [maxHeight] of square cells' area (default 640)
 */

export class Heatmap {
  /**
   * @param {HTMLElement} container
   * @param {HeatmapOptions} options
   */
  constructor(container, options) {
    this.options = { ...options };
    this.state = options.state ?? new MapState(options.data.rows, options.data.columns);
    this.state.reshape(options.data.rows, options.data.columns);
    this.pooled = new PooledMaps(options.data, options.signed ?? false);
    this.scale = { ...options.scale };
    this.paintMilliseconds = 0;
    this.paintings = 0;
    /** @type {PlotArea} */
    this.area = { left: 0, top: 0, width: 1, height: 1 };
    this.width = 0;
    this.stageHeight = 0;
    this.pendingFrame = 0;
    this.staleMap = true;
    this.cells = document.createElement('canvas');
    this.abort = new AbortController();
    this.root = makeElement('div', 'hm', container);
    this.stage = makeElement('div', 'hm-stage', this.root);
    this.base = makeElement('canvas', 'hm-base', this.stage);
    this.base.setAttribute('aria-hidden', 'true');
    this.over = this.makeOverlay();
    this.over.setAttribute('aria-label', this.describe());
    this.output = this.makeReadout();
    this.pinList = makeElement('ul', 'hm-pins', this.root);
    this.pinList.setAttribute('aria-label', 'pinned cells');
    this.input = new MapInput(this.over, this.state, () => this.area, this.abort.signal);
    this.unsubscribe = this.state.subscribe((change) => this.follow(change));
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.root);
    onThemeChange(() => this.requestPaint(true), this.abort.signal);
    this.showPins();
    this.layout();
  }

  /**
   * Another map in the same place. What is left out stays.
   * @param {MapData} data
   * @param {Partial<HeatmapOptions>} [changes]
   */
  setData(data, changes = {}) {
    Object.assign(this.options, changes, { data });
    this.pooled = new PooledMaps(data, this.options.signed ?? false);
    if (changes.scale) this.scale = { ...changes.scale };
    this.over.setAttribute('aria-label', this.describe());
    this.state.reshape(data.rows, data.columns);
    this.layout();
    this.showPins();
  }
  /** @param {ValueScale} scale */
  setScale(scale) {
    this.scale = { ...scale };
    this.requestPaint(true);
  }
  /** @param {ColorTables} tables */
  setTables(tables) {
    this.options.tables = tables;
    this.requestPaint(true);
  }
  /** The map with its axes, without crosshair and pins. */
  toCanvas() {
    this.paint();
    const copy = document.createElement('canvas');
    copy.width = this.base.width;
    copy.height = this.base.height;
    const context = copy.getContext('2d');
    if (context) {
      context.fillStyle = pageInks().paper;
      context.fillRect(0, 0, copy.width, copy.height);
      context.drawImage(this.base, 0, 0);
    }
    return copy;
  }
  destroy() {
    this.abort.abort();
    this.unsubscribe();
    this.observer.disconnect();
    cancelAnimationFrame(this.pendingFrame);
    this.root.remove();
  }

  /**
   * The value of a cell, NaN where it is masked or there is none.
   * @param {Cell} cell
   */
  valueAt(cell) {
    const { data } = this.options;
    return data.values[cell.row * data.columns + cell.column] ?? NaN;
  }
  /**
   * A cell in words: "query 3 'cat', key 0 'the': 0.25".
   * @param {Cell} cell
   */
  readout(cell) {
    const { rows, columns, unit } = this.options;
    const value = formatValue(this.valueAt(cell));
    const place = `${cellName(rows, 'row', cell.row)}, ${cellName(columns, 'column', cell.column)}`;
    return `${place}: ${value}${unit && value !== 'masked' ? ` ${unit}` : ''}`;
  }

  // --- elements -------------------------------------------------------------------------------------

  makeOverlay() {
    const over = makeElement('canvas', 'hm-over', this.stage);
    over.tabIndex = 0;
    over.setAttribute('role', 'application');
    over.setAttribute('aria-roledescription', 'heatmap');
    return over;
  }
  makeReadout() {
    const bar = makeElement('div', 'hm-bar', this.root);
    const output = makeElement('output', 'hm-readout', bar);
    output.setAttribute('aria-live', 'polite');
    const buttons = makeElement('span', 'hm-buttons', bar);
    makeButton(buttons, '−', 'zoom out', () => this.state.zoomBy(1 / ZOOM_STEP));
    makeButton(buttons, '+', 'zoom in', () => this.state.zoomBy(ZOOM_STEP));
    makeButton(buttons, 'all', 'show the whole map', () => this.state.reset());
    return output;
  }
  describe() {
    const { label, data } = this.options;
    return `${label ?? 'map'}, ${data.rows} rows and ${data.columns} columns; arrow keys move a cursor`;
  }
  showReadout() {
    const { cursor } = this.state;
    this.output.textContent = cursor ? this.readout(cursor) : '';
  }
  showPins() {
    this.pinList.replaceChildren();
    for (const pin of this.state.pins) {
      const item = makeElement('li', 'hm-pin', this.pinList);
      const button = makeElement('button', 'hm-pin-button', item);
      button.type = 'button';
      button.dataset.row = String(pin.row);
      button.dataset.column = String(pin.column);
      button.textContent = this.readout(pin);
      button.title = 'take this pin away';
      button.addEventListener('click', () => this.state.togglePin(pin));
    }
  }

  /** @param {import('./map_state.js').StateChange} change */
  follow(change) {
    if (change === 'pins') this.showPins();
    if (change === 'cursor') this.showReadout();
    this.requestPaint(change === 'view');
  }

  // --- painting -------------------------------------------------------------------------------------

  layout() {
    const width = Math.floor(this.root.clientWidth);
    if (width === 0) return; // not shown yet; the observer tells
    const { data, rows, columns, height, maxHeight } = this.options;
    const margins = mapMargins(rows, columns);
    let across = Math.max(40, width - margins.left - margins.right);
    let down = height ?? (across * data.rows) / data.columns;
    const most = maxHeight ?? 640;
    if (height === undefined && down > most) {
      down = most;
      across = Math.max(40, Math.min(across, (most * data.columns) / data.rows));
    }
    this.area = { left: margins.left, top: margins.top, width: across, height: Math.round(down) };
    this.width = width;
    this.stageHeight = this.area.height + margins.top + margins.bottom;
    this.stage.style.height = `${this.stageHeight}px`;
    this.requestPaint(true);
  }
  /** @param {boolean} map is the map itself stale, or the crosshair alone? */
  requestPaint(map) {
    this.staleMap ||= map;
    if (this.pendingFrame !== 0) return;
    this.pendingFrame = requestAnimationFrame(() => {
      this.pendingFrame = 0;
      this.paint();
    });
  }
  /** Paints now what is stale. */
  paint() {
    if (this.width === 0) return;
    if (this.staleMap) this.paintMap();
    this.staleMap = false;
    this.paintOver();
  }
  /**
   * A canvas of the stage, cleared, in CSS pixels.
   * @param {HTMLCanvasElement} canvas
   */
  cleared(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = Math.round(this.width * ratio);
    const height = Math.round(this.stageHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${this.stageHeight}px`;
    }
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.stageHeight);
    return context;
  }
  paintMap() {
    const begin = performance.now();
    const context = this.cleared(this.base);
    const ink = pageInks();
    const { area, options, state } = this;
    context.fillStyle = ink.shade;
    context.fillRect(area.left, area.top, area.width, area.height);
    this.paintCells(context);
    drawRegions(context, area, state, options.regions ?? [], ink);
    drawAxes(context, area, state, options.rows, options.columns, ink);
    this.paintMilliseconds = performance.now() - begin;
    this.paintings += 1;
    this.over.style.touchAction = state.zoom > 1 ? 'none' : 'pan-y';
  }
  /** @param {CanvasRenderingContext2D} context */
  paintCells(context) {
    const { area, state } = this;
    const ratio = window.devicePixelRatio || 1;
    const rowShift = poolShift((area.height * ratio) / state.spanRows);
    const columnShift = poolShift((area.width * ratio) / state.spanColumns);
    const level = this.pooled.level(rowShift, columnShift);
    const top = Math.floor(state.top) >> rowShift;
    const left = Math.floor(state.left) >> columnShift;
    const window_ = {
      top,
      left,
      rows: Math.min(level.rows, Math.ceil((state.top + state.spanRows) / 2 ** rowShift)) - top,
      columns:
        Math.min(level.columns, Math.ceil((state.left + state.spanColumns) / 2 ** columnShift)) -
        left,
    };
    const image = new ImageData(window_.columns, window_.rows);
    const { light, dark } = this.options.tables;
    const colors = colorPixels(pageIsDark() ? dark : light);
    colorCells(level, window_, this.scale, colors, new Uint32Array(image.data.buffer));
    this.cells.width = window_.columns;
    this.cells.height = window_.rows;
    this.cells.getContext('2d')?.putImageData(image, 0, 0);
    const cellWidth = area.width / state.spanColumns;
    const cellHeight = area.height / state.spanRows;
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    context.imageSmoothingEnabled = false;
    context.drawImage(
      this.cells,
      area.left + (left * 2 ** columnShift - state.left) * cellWidth,
      area.top + (top * 2 ** rowShift - state.top) * cellHeight,
      window_.columns * 2 ** columnShift * cellWidth,
      window_.rows * 2 ** rowShift * cellHeight,
    );
    context.restore();
  }
  paintOver() {
    const context = this.cleared(this.over);
    const ink = pageInks();
    for (const pin of this.state.pins) drawCrosshair(context, this.area, this.state, pin, ink, true);
    const { cursor } = this.state;
    if (cursor) drawCrosshair(context, this.area, this.state, cursor, ink, false);
  }
}

/**
 * By how many powers of two cells are pooled so that each has a pixel.
 * @param {number} pixels per cell
 */
function poolShift(pixels) {
  let shift = 0;
  while (pixels * 2 ** shift < 0.999 && shift < 24) ++shift;
  return shift;
}
