// Paths in the plane, such as a trajectory of position vectors: x need not rise, one unit is as long on
// both axes where the panel says so. The nearest point answers to the pointer.
import { FONT, pageInks } from '../shared/page_parts.js';
import { roundTicks, shortNumber } from '../shared/value_scale.js';
import { make } from './dom';
import type { Curve, Panel } from './messages';
import { type PanelView, sharpCanvas } from './panel';

const MARGIN = { left: 58, right: 14, top: 10, bottom: 44 };

interface View {
  width: number;
  height: number;
  x: [number, number];
  y: [number, number];
}

function widen([low, high]: [number, number], factor: number): [number, number] {
  const room = ((high - low) * (factor - 1)) / 2;
  return [low - room, high + room];
}

function viewOf(panel: Panel, width: number, height: number): View {
  let x = panel.x.range;
  let y = panel.y.range;
  if (panel.square) {
    const perX = (x[1] - x[0]) / (width - MARGIN.left - MARGIN.right);
    const perY = (y[1] - y[0]) / (height - MARGIN.top - MARGIN.bottom);
    if (perX < perY) x = widen(x, perY / perX);
    else y = widen(y, perX / perY);
  }
  return { width, height, x, y };
}

export class PointsPanel implements PanelView {
  readonly kind = 'points';
  readonly element = make('div', { class: 'panel-points' });
  private readonly canvas = make('canvas', { role: 'img' });
  private readonly readout = make('p', { class: 'readout', 'aria-live': 'polite' }, 'Point at a dot to read it.');
  private readonly observer: ResizeObserver;
  private view: View;
  private width = 0;
  private marked: { curve: number; index: number } | null = null;

  constructor(
    private readonly panel: Panel,
    private readonly palette: string[],
    private readonly height: number,
  ) {
    this.element.append(this.canvas, this.readout, this.legend());
    this.canvas.setAttribute('aria-label', panel.title);
    this.view = viewOf(panel, 400, height);
    this.canvas.addEventListener('pointermove', (event) => this.point(event.offsetX, event.offsetY));
    this.canvas.addEventListener('pointerleave', () => this.mark(null));
    this.observer = new ResizeObserver(() => {
      if (this.element.clientWidth !== this.width) this.paint();
    });
    this.observer.observe(this.element);
    this.paint();
  }

  private color(curve: Curve): string {
    return this.palette[curve.color % this.palette.length] ?? '#888';
  }
  private legend(): HTMLElement {
    const list = make('ul', { class: 'legend' });
    for (const curve of this.panel.curves.filter((c) => c.name !== '')) {
      const dot = make('span', { class: 'legend-dot' });
      dot.style.background = this.color(curve);
      list.append(make('li', {}, dot, curve.name));
    }
    return list;
  }

  private placeX(x: number): number {
    const { width, x: range } = this.view;
    return MARGIN.left + ((x - range[0]) / (range[1] - range[0])) * (width - MARGIN.left - MARGIN.right);
  }
  private placeY(y: number): number {
    const { height, y: range } = this.view;
    const up = (y - range[0]) / (range[1] - range[0]);
    return MARGIN.top + (this.panel.y_down ? up : 1 - up) * (height - MARGIN.top - MARGIN.bottom);
  }

  private paint(): void {
    this.width = this.element.clientWidth;
    this.view = viewOf(this.panel, Math.max(260, this.width || 400), this.height);
    const context = sharpCanvas(this.canvas, this.view.width, this.view.height);
    this.paintAxes(context);
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top, this.view.width - MARGIN.left - MARGIN.right, this.view.height - MARGIN.top - MARGIN.bottom);
    context.clip();
    for (const curve of this.panel.curves) this.paintCurve(context, curve);
    this.paintNotes(context);
    this.paintMark(context);
    context.restore();
  }
  private paintAxes(context: CanvasRenderingContext2D): void {
    const ink = pageInks();
    const { width, height, x, y } = this.view;
    context.font = `12px ${FONT}`;
    context.fillStyle = ink.soft;
    context.strokeStyle = ink.line;
    context.lineWidth = 1;
    context.textAlign = 'center';
    for (const tick of roundTicks(x[0], x[1], width / 80)) {
      const at = Math.round(this.placeX(tick)) + 0.5;
      line(context, at, MARGIN.top, at, height - MARGIN.bottom);
      context.fillText(shortNumber(tick), at, height - MARGIN.bottom + 16);
    }
    context.fillText(this.panel.x.label, (MARGIN.left + width - MARGIN.right) / 2, height - 8);
    context.textAlign = 'right';
    for (const tick of roundTicks(y[0], y[1], height / 50)) {
      const at = Math.round(this.placeY(tick)) + 0.5;
      line(context, MARGIN.left, at, width - MARGIN.right, at);
      context.fillText(shortNumber(tick), MARGIN.left - 6, at + 4);
    }
    context.save();
    context.translate(14, (MARGIN.top + height - MARGIN.bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'center';
    context.fillText(this.panel.y.label, 0, 0);
    context.restore();
  }
  private paintCurve(context: CanvasRenderingContext2D, curve: Curve): void {
    const color = this.color(curve);
    context.strokeStyle = color;
    context.fillStyle = color;
    if (curve.stroke !== 'dots') {
      context.globalAlpha = 0.55;
      context.lineWidth = 1.5;
      context.beginPath();
      curve.x.forEach((x, i) => {
        const y = curve.y[i] ?? NaN;
        if (i === 0) context.moveTo(this.placeX(x), this.placeY(y));
        else context.lineTo(this.placeX(x), this.placeY(y));
      });
      context.stroke();
      context.globalAlpha = 1;
    }
    const radius = curve.x.length > 600 ? 1.5 : 2.5;
    curve.x.forEach((x, i) => {
      context.beginPath();
      context.arc(this.placeX(x), this.placeY(curve.y[i] ?? NaN), radius, 0, 2 * Math.PI);
      context.fill();
    });
  }
  private paintNotes(context: CanvasRenderingContext2D): void {
    const ink = pageInks();
    context.font = `600 12px ${FONT}`;
    context.textAlign = 'left';
    for (const note of this.panel.notes) {
      const x = this.placeX(note.x) + 5;
      const y = this.placeY(note.y) - 5;
      context.lineWidth = 3;
      context.strokeStyle = ink.paper;
      context.strokeText(note.text, x, y);
      context.fillStyle = ink.ink;
      context.fillText(note.text, x, y);
    }
  }
  private paintMark(context: CanvasRenderingContext2D): void {
    const curve = this.marked && this.panel.curves[this.marked.curve];
    if (!curve || this.marked === null) return;
    context.beginPath();
    const { index } = this.marked;
    context.arc(this.placeX(curve.x[index] ?? NaN), this.placeY(curve.y[index] ?? NaN), 6, 0, 2 * Math.PI);
    context.lineWidth = 2;
    context.strokeStyle = pageInks().ink;
    context.stroke();
  }

  private point(left: number, top: number): void {
    let best: { curve: number; index: number } | null = null;
    let nearest = 24;
    this.panel.curves.forEach((curve, c) =>
      curve.x.forEach((x, i) => {
        const distance = Math.hypot(this.placeX(x) - left, this.placeY(curve.y[i] ?? NaN) - top);
        if (distance < nearest) [nearest, best] = [distance, { curve: c, index: i }];
      }),
    );
    this.mark(best);
  }
  private mark(found: { curve: number; index: number } | null): void {
    this.marked = found;
    const curve = found && this.panel.curves[found.curve];
    this.readout.textContent = curve
      ? `${curve.name || 'point'} ${found.index}: ${shortNumber(curve.x[found.index] ?? NaN)}, ${shortNumber(curve.y[found.index] ?? NaN)}`
      : 'Point at a dot to read it.';
    this.paint();
  }

  toCanvas(): HTMLCanvasElement {
    this.mark(null);
    return this.canvas;
  }
  destroy(): void {
    this.observer.disconnect();
  }
}

function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
