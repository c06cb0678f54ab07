// Curves over one shared axis, drawn by uPlot: lines, steps, bars and dots, bands, regions and rules.
import uPlot from 'uplot';
import { make } from './dom';
import type { Axis, Curve, Panel } from './messages';
import { marksPlugin } from './panel_marks';
import { FONT, inks, type Inks, type PanelView, shortNumber } from './panel';

interface Aligned {
  data: uPlot.AlignedData;
  series: uPlot.Series[];
  bands: uPlot.Band[];
}

const DASHES = [[], [8, 4], [2, 3], [12, 4, 2, 4]];

function pathsOf(curve: Curve): uPlot.Series.PathBuilder | undefined {
  if (curve.stroke === 'steps') return uPlot.paths.stepped?.({ align: 1 });
  if (curve.stroke === 'bars') return uPlot.paths.bars?.({ size: [0.7, 60] });
  if (curve.stroke === 'dots') return () => null;
  return uPlot.paths.linear?.();
}

function seriesOf(curve: Curve, palette: string[]): uPlot.Series {
  const color = palette[curve.color % palette.length] ?? '#888';
  const lap = Math.floor(curve.color / palette.length);
  const dots = curve.stroke === 'dots' || curve.stroke === 'dots_and_line';
  return {
    label: curve.name === '' ? 'value' : curve.name,
    stroke: color,
    width: curve.stroke === 'bars' ? 0 : 2,
    fill: curve.stroke === 'bars' ? color : undefined,
    dash: curve.stroke === 'dashed' ? [6, 5] : DASHES[lap % DASHES.length],
    paths: pathsOf(curve),
    points: { show: dots, size: 6, fill: color },
    spanGaps: false,
    value: (_plot, value) => (value === null || value === undefined ? '–' : shortNumber(value)),
  };
}

const finite = (values: Float64Array): (number | null)[] =>
  Array.from(values, (v) => (Number.isFinite(v) ? v : null));

// uPlot wants one list of x for all; curves with lists of their own are joined.
function align(curves: Curve[], palette: string[], xLabel: string): Aligned {
  const tables: uPlot.AlignedData[] = [];
  const series: uPlot.Series[] = [{ label: xLabel, value: (_plot, value) => (value === null ? '–' : shortNumber(value)) }];
  const bands: uPlot.Band[] = [];
  for (const curve of curves) {
    const columns = [finite(curve.y)];
    series.push(seriesOf(curve, palette));
    if (curve.low.length > 0) {
      columns.push(finite(curve.high), finite(curve.low));
      const edge: uPlot.Series = { show: true, stroke: 'transparent', points: { show: false }, class: 'band-edge' };
      series.push({ ...edge, label: 'high' }, { ...edge, label: 'low' });
      const color = palette[curve.color % palette.length] ?? '#888';
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${color}2e` });
    }
    tables.push([Array.from(curve.x), ...columns] as uPlot.AlignedData);
  }
  const data = tables.length === 1 ? (tables[0] as uPlot.AlignedData) : uPlot.join(tables);
  return { data, series, bands };
}

function axisOf(axis: Axis, ink: Inks, side: 'x' | 'y'): uPlot.Axis {
  const words = axis.words;
  return {
    label: axis.label,
    labelFont: `12px ${FONT}`,
    font: `12px ${FONT}`,
    labelSize: 20,
    size: side === 'y' ? 58 : words.length > 0 ? 76 : 40,
    stroke: ink.muted,
    grid: { stroke: ink.line, width: 1, dash: [2, 4] },
    ticks: { stroke: ink.line, width: 1, size: 5 },
    rotate: side === 'x' && words.length > 8 ? -55 : 0,
    space: side === 'x' ? (words.length > 0 ? 18 : 64) : 34,
    incrs: words.length > 0 ? [1, 2, 5, 10, 20, 50, 100] : undefined,
    values: (_plot, splits) =>
      splits.map((v) => {
        if (v === null || v === undefined) return '';
        if (words.length > 0) return Number.isInteger(v) ? (words[v] ?? '') : '';
        return axis.log && !wholePower(v, axis.base2) ? '' : shortNumber(v);
      }),
  };
}

function wholePower(value: number, base2: boolean): boolean {
  const power = base2 ? Math.log2(value) : Math.log10(value);
  return Math.abs(power - Math.round(power)) < 1e-9;
}

function scaleOf(axis: Axis, room: number): uPlot.Scale {
  const [low, high] = axis.range;
  const range: [number, number] = axis.words.length > 0 && room > 0 ? [low - room, high + room] : [low, high];
  return { time: false, distr: axis.log ? 3 : 1, log: axis.base2 ? 2 : 10, range };
}

/** Can uPlot draw these? It wants every list of x in rising order. */
export function risingCurves(panel: Panel): boolean {
  return panel.curves.every((curve) => curve.x.every((x, i) => i === 0 || x > (curve.x[i - 1] ?? -Infinity)));
}

export class LinesPanel implements PanelView {
  readonly kind = 'lines';
  readonly element = make('div', { class: 'panel-lines' });
  private readonly plot: uPlot;
  private readonly observer: ResizeObserver;

  constructor(panel: Panel, palette: string[], height: number) {
    const { data, series, bands } = align(panel.curves, palette, panel.x.label || 'x');
    const bars = panel.curves.some((curve) => curve.stroke === 'bars');
    const ink = inks();
    const colors = series.map((s) => s.stroke as string | undefined);
    const options: uPlot.Options = {
      width: Math.max(260, this.element.clientWidth || 480),
      height,
      series,
      bands,
      scales: {
        x: scaleOf(panel.x, bars ? 0.6 : 0.2),
        y: { ...scaleOf(panel.y, 0), dir: panel.y_down ? -1 : 1 },
      },
      axes: [axisOf(panel.x, ink, 'x'), axisOf(panel.y, ink, 'y')],
      legend: { show: true, live: true, markers: { fill: (plot, i) => plot.series[i]?.class === 'band-edge' ? 'transparent' : String(colors[i] ?? 'transparent') } },
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      plugins: [marksPlugin(panel)],
    };
    this.plot = new uPlot(options, data, this.element);
    this.hideBandLegends();
    this.observer = new ResizeObserver(() => {
      const width = this.element.clientWidth;
      if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height });
    });
    this.observer.observe(this.element);
  }

  // The edges of a band are part of their curve; they need no lines of their own in the legend.
  private hideBandLegends(): void {
    const rows = this.element.querySelectorAll<HTMLElement>('.u-series');
    this.plot.series.forEach((series, i) => {
      const row = rows[i];
      if (row !== undefined && series.class === 'band-edge') row.hidden = true;
    });
  }
  toCanvas(): HTMLCanvasElement {
    return this.plot.ctx.canvas;
  }
  destroy(): void {
    this.observer.disconnect();
    this.plot.destroy();
  }
}
