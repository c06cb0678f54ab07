// A sheet of clocks: a hand per pair of channels, with the trail of the positions before.
import { FONT, type Inks, pageInks } from '../shared/page_parts.js';
import { make } from './dom';
import type { Clock, Panel } from './messages';
import { type PanelView, sharpCanvas } from './panel';

const LABEL_ROOM = 34;

interface Place {
  x: number;
  y: number;
  radius: number;
}

function drawDial(context: CanvasRenderingContext2D, place: Place, ink: Inks): void {
  const { x, y, radius } = place;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = ink.shade;
  context.fill();
  context.lineWidth = 1.5;
  context.strokeStyle = ink.line;
  context.stroke();
  for (let tick = 0; tick < 12; ++tick) {
    const angle = (tick * Math.PI) / 6;
    const inner = radius * (tick % 3 === 0 ? 0.86 : 0.93);
    context.beginPath();
    context.moveTo(x + inner * Math.cos(angle), y + inner * Math.sin(angle));
    context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    context.stroke();
  }
}

// Canvas angles run clockwise, the model's counter-clockwise.
function drawHand(context: CanvasRenderingContext2D, place: Place, angle: number, length: number): void {
  context.beginPath();
  context.moveTo(place.x, place.y);
  context.lineTo(
    place.x + place.radius * length * Math.cos(angle),
    place.y - place.radius * length * Math.sin(angle),
  );
  context.stroke();
}

function drawClock(context: CanvasRenderingContext2D, clock: Clock, place: Place, ink: Inks, hand: string): void {
  drawDial(context, place, ink);
  const reach = 0.94 * clock.length;
  context.strokeStyle = clock.muted ? ink.soft : hand;
  context.lineWidth = 1.5;
  clock.trail.forEach((angle, i) => {
    context.globalAlpha = 0.06 + (0.3 * (i + 1)) / clock.trail.length;
    drawHand(context, place, angle, reach);
  });
  context.globalAlpha = 1;
  context.lineWidth = Math.max(2, place.radius / 16);
  context.lineCap = 'round';
  drawHand(context, place, clock.angle, reach);
  context.beginPath();
  context.arc(place.x, place.y, Math.max(2.5, place.radius / 14), 0, 2 * Math.PI);
  context.fillStyle = context.strokeStyle;
  context.fill();
  const [name, wavelength] = clock.label.split(': ');
  const tokens = Number(wavelength);
  const words = Number.isFinite(tokens) ? `${tokens.toLocaleString('en')} tokens` : (wavelength ?? '');
  context.textAlign = 'center';
  context.fillStyle = ink.ink;
  context.font = `600 12px ${FONT}`;
  context.fillText(name ?? '', place.x, place.y + place.radius + 15);
  context.fillStyle = ink.soft;
  context.font = `12px ${FONT}`;
  context.fillText(words, place.x, place.y + place.radius + 30);
}

export class ClocksPanel implements PanelView {
  readonly kind = 'clocks';
  readonly element = make('div', { class: 'panel-clocks' });
  private readonly canvas = make('canvas', { role: 'img' });
  private readonly observer: ResizeObserver;
  private width = 0;

  constructor(
    private panel: Panel,
    private hand: string,
  ) {
    this.element.append(this.canvas);
    this.observer = new ResizeObserver(() => {
      if (this.element.clientWidth !== this.width) this.paint();
    });
    this.observer.observe(this.element);
    this.paint();
  }

  update(panel: Panel, hand: string): void {
    this.panel = panel;
    this.hand = hand;
    this.paint();
  }

  private paint(): void {
    const clocks = this.panel.clocks;
    this.width = this.element.clientWidth;
    const width = Math.max(280, this.width);
    const most = Math.max(2, Math.floor(width / 92));
    const columns = Math.min(this.panel.clock_columns, most, clocks.length);
    const pitch = Math.min(170, width / columns);
    const radius = (pitch - 18) / 2;
    const row = 2 * radius + LABEL_ROOM + 14;
    const rows = Math.ceil(clocks.length / columns);
    const context = sharpCanvas(this.canvas, width, rows * row);
    const ink = pageInks();
    clocks.forEach((clock, i) => {
      const x = (i % columns) * pitch + pitch / 2;
      const y = Math.floor(i / columns) * row + radius + 6;
      drawClock(context, clock, { x, y, radius }, ink, this.hand);
    });
    const spoken = clocks.map((clock) => `${clock.label}: ${clock.angle.toFixed(3)} rad`).join('; ');
    this.canvas.setAttribute('aria-label', `${this.panel.title}. ${spoken}`);
  }

  toCanvas(): HTMLCanvasElement {
    return this.canvas;
  }
  destroy(): void {
    this.observer.disconnect();
  }
}
