// Mouse, touch and keys of a heatmap, turned into changes of its MapState.

/** @typedef {import('./map_state.js').MapState} MapState */
/** @typedef {import('./map_state.js').Cell} Cell */
/** @typedef {import('./map_axes.js').PlotArea} PlotArea */

const CLICK_SLACK = 4; // pixels that a hand moves during a click
export const ZOOM_STEP = 1.25;

export class MapInput {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {MapState} state
   * @param {() => PlotArea} area
   * @param {AbortSignal} signal ends it
   */
  constructor(canvas, state, area, signal) {
    this.canvas = canvas;
    this.state = state;
    this.area = area;
    this.aimed = false;
    this.byKeys = false;
    /** Where the pointer was last, in the window. */
    this.last = { x: NaN, y: NaN };
    /** @type {{x: number, y: number, moved: boolean} | null} */
    this.drag = null;
    this.listen(signal);
  }

  /** @param {AbortSignal} signal */
  listen(signal) {
    const { canvas } = this;
    canvas.addEventListener('pointerdown', (e) => this.beginDrag(e), { signal });
    canvas.addEventListener('pointermove', (e) => this.movePointer(e), { signal });
    canvas.addEventListener('pointerup', (e) => this.endDrag(e), { signal });
    canvas.addEventListener('pointercancel', () => (this.drag = null), { signal });
    canvas.addEventListener('pointerleave', () => this.leave(), { signal });
    // The two clicks of a double click have pinned and unpinned the cell already.
    canvas.addEventListener('dblclick', () => this.state.reset(), { signal });
    canvas.addEventListener('wheel', (e) => this.turnWheel(e), { signal, passive: false });
    canvas.addEventListener('keydown', (e) => this.pressKey(e), { signal });
    canvas.addEventListener('blur', () => this.state.setCursor(null), { signal });
    // A page that scrolls under a resting pointer was not meant to zoom the map, though browsers then
    // tell the map of a move.
    window.addEventListener('scroll', () => (this.aimed = false), { signal, passive: true });
    window.addEventListener('pointermove', (e) => this.notePointer(e), { signal, capture: true });
  }

  /**
   * @param {MouseEvent} event
   * @returns {[number, number]} fractions of the painted area, which may lie outside 0 to 1
   */
  placeOf(event) {
    const box = this.canvas.getBoundingClientRect();
    const { left, top, width, height } = this.area();
    return [(event.clientX - box.left - left) / width, (event.clientY - box.top - top) / height];
  }
  /**
   * @param {MouseEvent} event
   * @returns {Cell | null}
   */
  cellOf(event) {
    const [x, y] = this.placeOf(event);
    if (x < 0 || x >= 1 || y < 0 || y >= 1) return null;
    const { state } = this;
    return {
      row: Math.min(state.rows - 1, Math.floor(state.top + y * state.spanRows)),
      column: Math.min(state.columns - 1, Math.floor(state.left + x * state.spanColumns)),
    };
  }

  /** @param {PointerEvent} event */
  beginDrag(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.clientX, y: event.clientY, moved: false };
  }
  /** @param {PointerEvent} event */
  notePointer(event) {
    const { x, y } = this.last;
    this.last = { x: event.clientX, y: event.clientY };
    if (event.target === this.canvas && (x !== event.clientX || y !== event.clientY)) {
      this.aimed = true;
    }
  }
  /** @param {PointerEvent} event */
  movePointer(event) {
    this.byKeys = false;
    if (!this.drag) {
      this.state.setCursor(this.cellOf(event));
      return;
    }
    const dx = event.clientX - this.drag.x;
    const dy = event.clientY - this.drag.y;
    if (!this.drag.moved && Math.hypot(dx, dy) < CLICK_SLACK) return;
    this.drag = { x: event.clientX, y: event.clientY, moved: true };
    const { state } = this;
    const { width, height } = this.area();
    state.panBy((-dx / width) * state.spanColumns, (-dy / height) * state.spanRows);
  }
  /** @param {PointerEvent} event */
  endDrag(event) {
    const click = this.drag !== null && !this.drag.moved;
    this.drag = null;
    const cell = click ? this.cellOf(event) : null;
    if (cell) this.state.togglePin(cell);
  }
  leave() {
    this.aimed = false;
    if (!this.byKeys) this.state.setCursor(null);
  }
  /** @param {WheelEvent} event */
  turnWheel(event) {
    const [x, y] = this.placeOf(event);
    const done = event.deltaY > 0 && this.state.zoom <= 1;
    if (!this.aimed || done || x < 0 || x > 1 || y < 0 || y > 1) return;
    event.preventDefault();
    // deltaMode 1 counts lines, as Firefox does.
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    this.state.zoomBy(Math.exp(-Math.max(-100, Math.min(100, pixels)) * 0.0025), x, y);
    this.state.setCursor(this.cellOf(event));
  }

  /** @param {KeyboardEvent} event */
  pressKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = this.keyAction(event);
    if (!action) return;
    event.preventDefault();
    this.byKeys = true;
    action();
  }
  /**
   * @param {KeyboardEvent} event
   * @returns {(() => void) | undefined}
   */
  keyAction(event) {
    const { state } = this;
    /** @type {Record<string, [number, number]>} */
    const arrows = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    };
    const arrow = arrows[event.key];
    if (arrow && event.shiftKey) {
      return () => state.panBy((arrow[1] * state.spanColumns) / 8, (arrow[0] * state.spanRows) / 8);
    }
    if (arrow) return () => state.moveCursor(arrow[0], arrow[1]);
    const pin = () => {
      if (state.cursor) state.togglePin(state.cursor);
    };
    /** @type {Record<string, () => void>} */
    const actions = {
      '+': () => this.zoomAtCursor(ZOOM_STEP),
      '=': () => this.zoomAtCursor(ZOOM_STEP),
      '-': () => this.zoomAtCursor(1 / ZOOM_STEP),
      0: () => state.reset(),
      Home: () => state.moveCursor(0, -state.columns),
      End: () => state.moveCursor(0, state.columns),
      Enter: pin,
      ' ': pin,
      Escape: () => state.unpinLast(),
    };
    return actions[event.key];
  }
  /** @param {number} factor */
  zoomAtCursor(factor) {
    const { state } = this;
    const { cursor } = state;
    const x = cursor ? (cursor.column + 0.5 - state.left) / state.spanColumns : 0.5;
    const y = cursor ? (cursor.row + 0.5 - state.top) / state.spanRows : 0.5;
    state.zoomBy(factor, Math.min(1, Math.max(0, x)), Math.min(1, Math.max(0, y)));
  }
}
