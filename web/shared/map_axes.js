// What stands around a heatmap: ticks or words, marked regions, the crosshair.
import { FONT } from './page_parts.js';

/** @typedef {import('./map_state.js').MapState} MapState */
/** @typedef {import('./map_state.js').Cell} Cell */
/** @typedef {{left: number, top: number, width: number, height: number}} PlotArea */
/** @typedef {import('./page_parts.js').Inks} Inks */

/**
 * Cell i is at begin + i step. `words` stand at the axis where they fit; `names` are what a readout calls
 * cells, where that is more than the number and the word.
 * @typedef {object} AxisInfo
 * @property {string} [label]
 * @property {string[]} [words]
 * @property {string[]} [names]
 * @property {number} [begin]
 * @property {number} [step]
 */

/**
 * Cells from begin up to, not including, end; on both axes unless one is named.
 * @typedef {{begin: number, end: number, label?: string, axis?: 'rows' | 'columns'}} MarkedRegion
 */

const WORD_PIXELS = 12; // that a line of words needs
const FONT_PIXELS = 11;
const LONGEST_WORD = 12; // letters at an axis; readouts have all of them

/**
 * What a readout calls a cell's row or column.
 * @param {AxisInfo | undefined} axis
 * @param {string} fallback
 * @param {number} index
 */
export function cellName(axis, fallback, index) {
  const label = axis?.label ?? fallback;
  const name = axis?.names?.[index];
  if (name !== undefined) return `${label} ${name}`;
  const word = axis?.words?.[index];
  const at = tickText(axis, index);
  return word === undefined ? `${label} ${at}` : `${label} ${at} ‘${word}’`;
}

/**
 * @param {AxisInfo | undefined} axis
 * @param {number} index
 */
function tickText(axis, index) {
  const at = (axis?.begin ?? 0) + index * (axis?.step ?? 1);
  return String(Number(at.toPrecision(6)));
}

/** @param {string} word */
function shortWord(word) {
  return word.length > LONGEST_WORD ? `${word.slice(0, LONGEST_WORD - 1)}…` : word;
}

/** @param {AxisInfo | undefined} axis */
function wordRoom(axis) {
  const longest = Math.max(4, ...(axis?.words ?? []).map((word) => shortWord(word).length));
  return Math.min(84, 10 + longest * 6.5);
}

/**
 * Room around the painted area, in pixels.
 * @param {AxisInfo | undefined} rows
 * @param {AxisInfo | undefined} columns
 */
export function mapMargins(rows, columns) {
  return {
    left: Math.round(wordRoom(rows) + (rows?.label ? 20 : 0)),
    bottom: Math.round(wordRoom(columns) + (columns?.label ? 16 : 0)),
    top: 8,
    right: 8,
  };
}

/**
 * Whole steps of 1, 2, 5, 10, ... cells that leave `room` pixels between ticks.
 * @param {number} cell pixels
 * @param {number} room pixels
 */
function tickStep(cell, room) {
  for (let power = 1; ; power *= 10) {
    for (const digit of [1, 2, 5]) {
      if (digit * power * cell >= room) return digit * power;
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {PlotArea} area
 * @param {MapState} state
 * @param {AxisInfo | undefined} rows
 * @param {AxisInfo | undefined} columns
 * @param {Inks} ink
 */
export function drawAxes(context, area, state, rows, columns, ink) {
  context.font = `${FONT_PIXELS}px ${FONT}`;
  context.fillStyle = ink.soft;
  context.strokeStyle = ink.soft;
  context.lineWidth = 1;
  context.textBaseline = 'middle';
  context.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
  const cellHeight = area.height / state.spanRows;
  const cellWidth = area.width / state.spanColumns;
  context.textAlign = 'right';
  eachTick(rows, state.top, state.spanRows, state.rows, cellHeight, 28, (text, at) => {
    context.fillText(text, area.left - 6, area.top + at);
  });
  eachTick(columns, state.left, state.spanColumns, state.columns, cellWidth, 40, (text, at, word) => {
    drawColumnText(context, text, area.left + at, area.top + area.height + 6, word);
  });
  drawLabels(context, area, rows, columns, ink);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {boolean} upright
 */
function drawColumnText(context, text, x, y, upright) {
  context.save();
  context.translate(x, y);
  if (upright) {
    context.rotate(-Math.PI / 2);
    context.textAlign = 'right';
  } else {
    context.textAlign = 'center';
    context.translate(0, 5);
  }
  context.fillText(text, 0, 0);
  context.restore();
}

/**
 * Words where each has room, else numbers.
 * @param {AxisInfo | undefined} axis
 * @param {number} first in view
 * @param {number} span in view
 * @param {number} count of all cells
 * @param {number} cell pixels
 * @param {number} room pixels that a number needs
 * @param {(text: string, at: number, word: boolean) => void} draw `at` in pixels from the first in view
 */
function eachTick(axis, first, span, count, cell, room, draw) {
  const words = axis?.words !== undefined && cell >= WORD_PIXELS;
  const step = words ? 1 : tickStep(cell, room);
  const last = Math.min(count - 1, Math.floor(first + span - 0.5));
  for (let i = Math.ceil((first - 0.5) / step) * step; i <= last; i += step) {
    if (i < 0) continue;
    const word = words ? axis?.words?.[i] : undefined;
    draw(word === undefined ? tickText(axis, i) : shortWord(word), (i + 0.5 - first) * cell, words);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {PlotArea} area
 * @param {AxisInfo | undefined} rows
 * @param {AxisInfo | undefined} columns
 * @param {Inks} ink
 */
function drawLabels(context, area, rows, columns, ink) {
  context.fillStyle = ink.ink;
  context.textAlign = 'center';
  const below = mapMargins(rows, columns).bottom;
  if (columns?.label) {
    context.fillText(columns.label, area.left + area.width / 2, area.top + area.height + below - 8);
  }
  if (rows?.label) {
    context.save();
    context.translate(8, area.top + area.height / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(rows.label, 0, 0);
    context.restore();
  }
}

/**
 * Regions as bars along the axes, and thin lines through the map.
 * @param {CanvasRenderingContext2D} context
 * @param {PlotArea} area
 * @param {MapState} state
 * @param {MarkedRegion[]} regions
 * @param {Inks} ink
 */
export function drawRegions(context, area, state, regions, ink) {
  context.save();
  context.beginPath();
  context.rect(area.left - 4, area.top, area.width + 4, area.height + 4);
  context.clip();
  context.fillStyle = ink.pin;
  context.strokeStyle = ink.pin;
  context.setLineDash([3, 3]);
  for (const region of regions) {
    if (region.axis !== 'columns') {
      const cell = area.height / state.spanRows;
      const from = area.top + (region.begin - state.top) * cell;
      const to = area.top + (region.end - state.top) * cell;
      context.fillRect(area.left - 4, from, 3, to - from);
      drawLine(context, area.left, to, area.left + area.width, to);
    }
    if (region.axis !== 'rows') {
      const cell = area.width / state.spanColumns;
      const from = area.left + (region.begin - state.left) * cell;
      const to = area.left + (region.end - state.left) * cell;
      context.fillRect(from, area.top + area.height + 1, to - from, 3);
      drawLine(context, to, area.top, to, area.top + area.height);
    }
  }
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x0
 * @param {number} y0
 * @param {number} x1
 * @param {number} y1
 */
function drawLine(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/**
 * The cursor has lines through the whole map; a pin has a frame around its cell.
 * @param {CanvasRenderingContext2D} context
 * @param {PlotArea} area
 * @param {MapState} state
 * @param {Cell} cell
 * @param {Inks} ink
 * @param {boolean} pin
 */
export function drawCrosshair(context, area, state, cell, ink, pin) {
  const width = area.width / state.spanColumns;
  const height = area.height / state.spanRows;
  const x = area.left + (cell.column - state.left) * width;
  const y = area.top + (cell.row - state.top) * height;
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  const middleX = x + width / 2;
  const middleY = y + height / 2;
  const side = [Math.max(width, 7), Math.max(height, 7)];
  // Dark under light: seen on every colour.
  for (const [color, line] of /** @type {[string, number][]} */ ([['#0007', 3], ['#fffc', 1]])) {
    context.strokeStyle = pin && line === 1 ? ink.pin : color;
    context.lineWidth = pin ? line + 1 : line;
    if (!pin) {
      drawLine(context, area.left, middleY, middleX - side[0] / 2, middleY);
      drawLine(context, middleX + side[0] / 2, middleY, area.left + area.width, middleY);
      drawLine(context, middleX, area.top, middleX, middleY - side[1] / 2);
      drawLine(context, middleX, middleY + side[1] / 2, middleX, area.top + area.height);
    }
    context.strokeRect(middleX - side[0] / 2, middleY - side[1] / 2, side[0], side[1]);
  }
  context.restore();
}
