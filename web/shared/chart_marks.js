// Regions, rules and notes on uPlot's canvas: shades under the curves, lines and words above them.
import uPlot from 'uplot';
import { FONT, pageInks } from './page_parts.js';

/** @typedef {{begin: number, end: number, label: string, vertical: boolean}} Region */
/** @typedef {{at: number, label: string, vertical: boolean}} Rule */
/** @typedef {{regions?: Region[], rules?: Rule[], notes?: {x: number, y: number, text: string}[]}} Marks */

class MarkPainter {
  /** @param {uPlot} plot */
  constructor(plot) {
    this.plot = plot;
    this.context = plot.ctx;
    this.box = plot.bbox;
    this.ink = pageInks();
    this.ratio = devicePixelRatio;
  }

  /** @param {() => void} draw within the plot's area */
  clipped(draw) {
    const { context, box } = this;
    context.save();
    context.beginPath();
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    context.font = `${12 * this.ratio}px ${FONT}`;
    context.textAlign = 'left';
    context.textBaseline = 'alphabetic';
    draw();
    context.restore();
  }
  /** @param {number} value @param {boolean} vertical */
  pixel(value, vertical) {
    return this.plot.valToPos(value, vertical ? 'x' : 'y', true);
  }
  /** @param {Region} region @returns the part of it that is in view */
  span({ begin, end, vertical }) {
    const ends = [this.pixel(begin, vertical), this.pixel(end, vertical)];
    const { left, top, width, height } = this.box;
    const [low, high] = vertical ? [left, left + width] : [top, top + height];
    const from = Math.max(low, Math.min(...ends));
    return { from, size: Math.min(high, Math.max(...ends)) - from };
  }
  /** @param {string} text with a rim of paper, so that it reads on curves @param {number} x @param {number} y */
  write(text, x, y) {
    const { context, ink } = this;
    context.setLineDash([]);
    context.lineJoin = 'round';
    context.lineWidth = 4 * this.ratio;
    context.strokeStyle = ink.paper;
    context.strokeText(text, x, y);
    context.fillStyle = ink.soft;
    context.fillText(text, x, y);
  }

  /** @param {Region} region @param {number} index neighbours differ, so that one sees where a region ends */
  shade(region, index) {
    const { context, box } = this;
    const { from, size } = this.span(region);
    context.globalAlpha = index % 2 === 0 ? 1 : 0.4;
    context.fillStyle = this.ink.shade;
    if (region.vertical) context.fillRect(from, box.top, size, box.height);
    else context.fillRect(box.left, from, box.width, size);
  }
  /** @param {Region} region whose name is left out where it would reach into the next one */
  name(region) {
    const room = 6 * this.ratio;
    const { from, size } = this.span(region);
    if (region.vertical && this.context.measureText(region.label).width + 2 * room > size) return;
    const x = region.vertical ? from + room : this.box.left + room;
    this.write(region.label, x, (region.vertical ? this.box.top : from) + 15 * this.ratio);
  }
  /** @param {Rule} rule @param {number} index */
  rule({ at, label, vertical }, index) {
    const { context, box, ratio } = this;
    const pixel = this.pixel(at, vertical);
    context.strokeStyle = this.ink.soft;
    context.lineWidth = ratio;
    context.setLineDash([5 * ratio, 4 * ratio]);
    context.beginPath();
    context.moveTo(vertical ? pixel : box.left, vertical ? box.top : pixel);
    context.lineTo(vertical ? pixel : box.left + box.width, vertical ? box.top + box.height : pixel);
    context.stroke();
    const x = vertical ? pixel + 5 * ratio : box.left + 6 * ratio;
    this.write(label, x, vertical ? box.top + (31 + 15 * (index % 3)) * ratio : pixel - 5 * ratio);
  }
}

/** @param {Marks} marks @returns {uPlot.Plugin} */
export function marksPlugin({ regions = [], rules = [], notes = [] }) {
  /** @param {uPlot} plot */
  const drawAxes = (plot) => {
    const painter = new MarkPainter(plot);
    painter.clipped(() => regions.forEach((region, i) => painter.shade(region, i)));
  };
  /** @param {uPlot} plot */
  const draw = (plot) => {
    const painter = new MarkPainter(plot);
    painter.clipped(() => {
      for (const region of regions) painter.name(region);
      rules.forEach((rule, i) => painter.rule(rule, i));
      for (const { x, y, text } of notes) painter.write(text, painter.pixel(x, true) + 6, painter.pixel(y, false) - 6);
    });
  };
  return { hooks: { drawAxes, draw } };
}
