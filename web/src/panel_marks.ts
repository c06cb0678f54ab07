// Regions, rules and notes of a panel on uPlot's canvas: shades under the curves, lines and words above them.
import type uPlot from 'uplot';
import type { Panel, Region, Rule } from './messages';
import { FONT, inks } from './panel';

interface Span {
  from: number;
  size: number;
}

function along(plot: uPlot, value: number, vertical: boolean): number {
  return plot.valToPos(value, vertical ? 'x' : 'y', true);
}

// The part of a region that is in view.
function spanOf(plot: uPlot, region: Region): Span {
  const ends = [along(plot, region.begin, region.vertical), along(plot, region.end, region.vertical)];
  const { left, top, width, height } = plot.bbox;
  const [low, high] = region.vertical ? [left, left + width] : [top, top + height];
  const from = Math.max(low, Math.min(...ends));
  return { from, size: Math.min(high, Math.max(...ends)) - from };
}

function withClip(plot: uPlot, draw: (context: CanvasRenderingContext2D) => void): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = `${12 * devicePixelRatio}px ${FONT}`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'alphabetic';
  draw(ctx);
  ctx.restore();
}

// With a rim of paper, so that it reads on curves.
function write(context: CanvasRenderingContext2D, text: string, x: number, y: number): void {
  const ink = inks();
  context.setLineDash([]);
  context.lineJoin = 'round';
  context.lineWidth = 4 * devicePixelRatio;
  context.strokeStyle = ink.paper;
  context.strokeText(text, x, y);
  context.fillStyle = ink.muted;
  context.fillText(text, x, y);
}

// Neighbours differ, so that one sees where a region ends.
function shade(plot: uPlot, context: CanvasRenderingContext2D, region: Region, index: number): void {
  const { bbox } = plot;
  const { from, size } = spanOf(plot, region);
  context.globalAlpha = index % 2 === 0 ? 1 : 0.4;
  context.fillStyle = inks().shade;
  if (region.vertical) context.fillRect(from, bbox.top, size, bbox.height);
  else context.fillRect(bbox.left, from, bbox.width, size);
}

// A name that does not fit its region would be read as its neighbour's.
function nameRegion(plot: uPlot, context: CanvasRenderingContext2D, region: Region): void {
  const { bbox } = plot;
  const room = 6 * devicePixelRatio;
  const { from, size } = spanOf(plot, region);
  if (region.vertical && context.measureText(region.label).width + 2 * room > size) return;
  const x = region.vertical ? from + room : bbox.left + room;
  const y = (region.vertical ? bbox.top : from) + 15 * devicePixelRatio;
  write(context, region.label, x, y);
}

function drawRule(plot: uPlot, context: CanvasRenderingContext2D, rule: Rule, index: number): void {
  const { bbox } = plot;
  const at = along(plot, rule.at, rule.vertical);
  context.strokeStyle = inks().muted;
  context.lineWidth = devicePixelRatio;
  context.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
  context.beginPath();
  context.moveTo(rule.vertical ? at : bbox.left, rule.vertical ? bbox.top : at);
  context.lineTo(rule.vertical ? at : bbox.left + bbox.width, rule.vertical ? bbox.top + bbox.height : at);
  context.stroke();
  const x = rule.vertical ? at + 5 * devicePixelRatio : bbox.left + 6 * devicePixelRatio;
  const y = rule.vertical ? bbox.top + (31 + 15 * (index % 3)) * devicePixelRatio : at - 5 * devicePixelRatio;
  write(context, rule.label, x, y);
}

export function marksPlugin(panel: Panel): uPlot.Plugin {
  return {
    hooks: {
      drawAxes: (plot) =>
        withClip(plot, (context) => panel.regions.forEach((region, i) => shade(plot, context, region, i))),
      draw: (plot) =>
        withClip(plot, (context) => {
          for (const region of panel.regions) nameRegion(plot, context, region);
          panel.rules.forEach((rule, i) => drawRule(plot, context, rule, i));
          for (const note of panel.notes) {
            write(context, note.text, along(plot, note.x, true) + 6, along(plot, note.y, false) - 6);
          }
        }),
    },
  };
}
