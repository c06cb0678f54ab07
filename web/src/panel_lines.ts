// Curves over one shared axis: a panel as the shared line chart draws it.
import { type ChartAxis, type Line, LineChart } from '../shared/line_chart.js';
import { make } from './dom';
import type { Axis, Curve, Panel } from './messages';
import type { PanelView } from './panel';

const DASHES = [[], [8, 4], [2, 3], [12, 4, 2, 4]];

function lineOf(curve: Curve, palette: string[]): Line {
  const lap = Math.floor(curve.color / palette.length);
  return {
    ...curve,
    color: palette[curve.color % palette.length] ?? '#888888',
    dash: curve.stroke === 'dashed' ? [6, 5] : DASHES[lap % DASHES.length],
  };
}

// Bars and dots of words at the ends need room beside them.
function axisOf(axis: Axis, room: number): ChartAxis {
  const [low, high] = axis.range;
  return { ...axis, range: axis.words.length > 0 ? [low - room, high + room] : axis.range };
}

/** Can the chart draw these? It joins all lists of x in rising order. */
export function risingCurves(panel: Panel): boolean {
  return panel.curves.every((curve) => curve.x.every((x, i) => i === 0 || x > (curve.x[i - 1] ?? -Infinity)));
}

export class LinesPanel implements PanelView {
  readonly kind = 'lines';
  readonly element = make('div', { class: 'panel-lines' });
  private readonly chart: LineChart;

  constructor(panel: Panel, palette: string[], height: number) {
    this.chart = new LineChart(this.element, { label: panel.title, height, legend: true });
    this.chart.set({
      ...panel,
      lines: panel.curves.map((curve) => lineOf(curve, palette)),
      x: axisOf(panel.x, panel.curves.some((curve) => curve.stroke === 'bars') ? 0.6 : 0.2),
      y: { ...panel.y, down: panel.y_down },
    });
  }

  toCanvas(): HTMLCanvasElement {
    return this.chart.plot?.ctx.canvas ?? make('canvas');
  }
  destroy(): void {
    this.chart.destroy();
  }
}
