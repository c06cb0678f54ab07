// What several heatmaps can share: the part of the map in view, the cell under the crosshair, pinned cells.
//
// Maps that are given one MapState move together: zoom one, and all zoom.

/** @typedef {{row: number, column: number}} Cell */
/** @typedef {'view' | 'cursor' | 'pins'} StateChange */

const FEWEST_CELLS = 4; // along the longer side at the greatest zoom

export class MapState {
  /**
   * @param {number} rows
   * @param {number} columns
   */
  constructor(rows, columns) {
    this.rows = rows;
    this.columns = columns;
    this.zoom = 1;
    /** Cells left of and above the view. */
    this.left = 0;
    this.top = 0;
    /** @type {Cell | null} */
    this.cursor = null;
    /** @type {Cell[]} */
    this.pins = [];
    /** @type {Set<(change: StateChange) => void>} */
    this.listeners = new Set();
  }

  /**
   * @param {(change: StateChange) => void} listener
   * @returns {() => void} ends it
   */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
  /** @param {StateChange} change */
  emit(change) {
    for (const listener of [...this.listeners]) listener(change);
  }

  /** Cells in view, which may be parts of cells. */
  get spanColumns() {
    return this.columns / this.zoom;
  }
  get spanRows() {
    return this.rows / this.zoom;
  }
  get greatestZoom() {
    return Math.max(1, Math.max(this.rows, this.columns) / FEWEST_CELLS);
  }

  /**
   * Another map's shape. View, cursor and pins stay where the shape does.
   * @param {number} rows
   * @param {number} columns
   */
  reshape(rows, columns) {
    if (rows === this.rows && columns === this.columns) return;
    this.rows = rows;
    this.columns = columns;
    this.zoom = 1;
    this.left = 0;
    this.top = 0;
    this.cursor = null;
    this.pins = [];
    this.emit('view');
    this.emit('pins');
  }

  reset() {
    this.zoomTo(1, 0, 0);
  }
  /**
   * Zooms about a point that is given as fractions of the view; it stays where it is.
   * @param {number} factor
   * @param {number} x
   * @param {number} y
   */
  zoomBy(factor, x = 0.5, y = 0.5) {
    const zoom = Math.min(this.greatestZoom, Math.max(1, this.zoom * factor));
    const left = this.left + x * (this.spanColumns - this.columns / zoom);
    const top = this.top + y * (this.spanRows - this.rows / zoom);
    this.zoomTo(zoom, left, top);
  }
  /**
   * @param {number} columns
   * @param {number} rows
   */
  panBy(columns, rows) {
    this.zoomTo(this.zoom, this.left + columns, this.top + rows);
  }
  /**
   * @param {number} zoom
   * @param {number} left
   * @param {number} top
   */
  zoomTo(zoom, left, top) {
    this.zoom = zoom;
    this.left = Math.min(Math.max(0, left), this.columns - this.spanColumns);
    this.top = Math.min(Math.max(0, top), this.rows - this.spanRows);
    this.emit('view');
  }

  /** @param {Cell | null} cell */
  setCursor(cell) {
    const same = cell?.row === this.cursor?.row && cell?.column === this.cursor?.column;
    if (same) return;
    this.cursor = cell;
    this.emit('cursor');
  }
  /**
   * Moves the cursor by cells, from the middle of the view where there is none; the view follows.
   * @param {number} rows
   * @param {number} columns
   */
  moveCursor(rows, columns) {
    const from = this.cursor ?? {
      row: Math.floor(this.top + this.spanRows / 2) - rows,
      column: Math.floor(this.left + this.spanColumns / 2) - columns,
    };
    const cell = {
      row: Math.min(Math.max(0, from.row + rows), this.rows - 1),
      column: Math.min(Math.max(0, from.column + columns), this.columns - 1),
    };
    this.reveal(cell);
    this.setCursor(cell);
  }
  /** @param {Cell} cell */
  reveal(cell) {
    const left = Math.min(cell.column, Math.max(this.left, cell.column + 1 - this.spanColumns));
    const top = Math.min(cell.row, Math.max(this.top, cell.row + 1 - this.spanRows));
    if (left !== this.left || top !== this.top) this.zoomTo(this.zoom, left, top);
  }

  /**
   * Pins a cell, or takes its pin away.
   * @param {Cell} cell
   */
  togglePin(cell) {
    const others = this.pins.filter((p) => p.row !== cell.row || p.column !== cell.column);
    const had = others.length < this.pins.length;
    this.pins = had ? others : [...this.pins, { row: cell.row, column: cell.column }];
    this.emit('pins');
  }
  /** Takes the last pin away. */
  unpinLast() {
    if (this.pins.length === 0) return;
    this.pins = this.pins.slice(0, -1);
    this.emit('pins');
  }
}
