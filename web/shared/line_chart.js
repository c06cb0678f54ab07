// Curves over one axis, drawn by uPlot: lines, steps, bars and dots, with bands, regions, rules and notes.
//
//   const chart = new LineChart(element, { label: 'Training loss', height: 290 });
//   chart.set({ lines, x: { label: 'step', include: 0 }, y: { log: true }, rules });   // also for other data
//   chart.plot?.ctx.canvas;
//   chart.destroy();
//
// The pointer, or the arrow keys, Home and End, move a crosshair that reads all curves; Escape hides it. Values
// are in a box next to the crosshair, or with `legend` in a legend whose names hide and show curves.
import uPlot from 'uplot';
import { marksPlugin } from './chart_marks.js';
import { FONT, makeElement, pageInks } from './page_parts.js';
import { roundTicks, shortNumber } from './value_scale.js';

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {string} color
 * @property {ArrayLike<number>} x
 * @property {ArrayLike<number>} y NaN breaks the curve
 * @property {ArrayLike<number>} [low] with `high`: a band
 * @property {ArrayLike<number>} [high]
 * @property {string} [stroke] solid, dots, dots_and_line, steps, bars or diamonds
 * @property {number[]} [dash]
 * @property {number} [width]
 * @property {boolean} [quiet] not in readouts
 * @property {boolean} [faint] quiet, thin, and not what the y axis is fitted to
 * @property {boolean} [going] has a dot at its end
 */
/**
 * @typedef {object} ChartAxis
 * @property {string} [label]
 * @property {[number, number] | number[]} [range] without it, fitted to the lines
 * @property {number} [include] a value that a fitted range reaches
 * @property {boolean} [log]
 * @property {boolean} [base2] of a logarithmic axis
 * @property {boolean} [down] smaller values are above larger ones
 * @property {string[]} [words] in place of the numbers 0, 1, ...
 * @property {(value: number) => string} [format]
 */
/** @typedef {{lines: Line[], x: ChartAxis, y: ChartAxis} & import('./chart_marks.js').Marks} ChartContent */
/** @typedef {{label: string, height: number, legend?: boolean, empty?: string}} ChartOptions */

const MOST_ROWS = 12; // of a readout
const DIAMOND = 5; // pixels from its middle to a corner
const QUIET = 'lc-quiet';

/** @param {number} value @param {ChartAxis} axis */
const isDrawn = (value, axis) => Number.isFinite(value) && !(axis.log && value <= 0);

/**
 * @param {ChartAxis} axis
 * @param {(ArrayLike<number> | undefined)[]} lists
 * @param {number} room beyond the ends, as a share
 * @returns {[number, number]}
 */
function rangeOf(axis, lists, room) {
  if (axis.range) return /** @type {[number, number]} */ (axis.range);
  let [low, high] = [axis.include ?? Infinity, axis.include ?? -Infinity];
  for (const value of lists.flatMap((list) => Array.from(list ?? []))) {
    if (!isDrawn(value, axis)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0.1, 1];
  const factor = high / low < 1.2 ? 1.1 : (high / low) ** room;
  if (axis.log) return [low / factor, high * factor];
  const pad = high > low ? (high - low) * room : 0.5;
  return [low - pad, high + pad];
}

/**
 * Ticks of a logarithmic axis of few powers of ten: the plainest digits that give four of them.
 * @param {[number, number]} range
 */
function logTicks([low, high]) {
  const powers = [0, 1, 2].map((p) => 10 ** (Math.floor(Math.log10(low)) + p));
  for (const digits of [[1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
    const ticks = powers.flatMap((power) => digits.map((d) => d * power)).filter((t) => t >= low && t <= high);
    if (ticks.length >= 4) return ticks;
  }
  return roundTicks(low, high, 5);
}

/** @param {ChartAxis} axis @param {[number, number]} range @returns {uPlot.Scale} */
function scaleOf({ log, base2, down }, range) {
  return { time: false, distr: log ? 3 : 1, log: base2 ? 2 : 10, dir: down ? -1 : 1, range };
}

/** @param {ChartAxis} axis @param {'x' | 'y'} side @param {[number, number]} range @returns {uPlot.Axis} */
function axisOf({ label, words = [], log, base2, format = shortNumber }, side, range) {
  const ink = pageInks();
  const font = `12px ${FONT}`;
  const narrow = log && !base2 && range[1] / range[0] < 100; // uPlot would label powers alone
  return {
    label: label || undefined,
    labelFont: font,
    font,
    labelSize: 20,
    size: side === 'y' ? 58 : words.length > 0 ? 76 : 34,
    stroke: ink.soft,
    grid: { stroke: ink.line, width: 1, dash: [2, 4] },
    ticks: { stroke: ink.line, width: 1, size: 5 },
    rotate: side === 'x' && words.length > 8 ? -55 : 0,
    space: side === 'x' ? (words.length > 0 ? 18 : 64) : 34,
    incrs: words.length > 0 ? [1, 2, 5, 10, 20, 50, 100] : undefined,
    splits: narrow ? () => logTicks(range) : undefined,
    filter: narrow ? (_plot, ticks) => ticks : undefined,
    values: (_plot, ticks) =>
      ticks.map((tick) => {
        if (tick === null || tick === undefined) return '';
        return words.length > 0 ? (words[tick] ?? '') : format(tick);
      }),
  };
}

/** @param {Line} line @param {ChartAxis} y @returns {uPlot.Series} */
function seriesOf({ name, color, dash, stroke = 'solid', width = 2, faint, quiet }, y) {
  const { linear, stepped, bars } = uPlot.paths;
  const paths = { steps: stepped?.({ align: 1 }), bars: bars?.({ size: [0.7, 60] }), dots: () => null, diamonds: () => null };
  return {
    label: name || 'value',
    class: quiet || faint ? QUIET : undefined,
    stroke: color,
    width: stroke === 'bars' ? 0 : faint ? 1 : width,
    alpha: faint ? 0.35 : 1,
    fill: stroke === 'bars' ? color : undefined,
    dash,
    paths: /** @type {Record<string, uPlot.Series.PathBuilder | undefined>} */ (paths)[stroke] ?? linear?.(),
    points: { show: stroke.startsWith('dots'), size: 6, fill: color },
    spanGaps: false,
    value: (_plot, value) => (y.format ?? shortNumber)(value),
  };
}

/**
 * uPlot wants one list of x for all: lines are joined, and lines with a band take three columns.
 * @param {ChartContent} content
 */
function align({ lines, x, y }) {
  /** @type {uPlot.AlignedData[]} */
  const tables = [];
  /** @type {uPlot.Series[]} */
  const series = [{ label: x.label || 'x', value: (_plot, value) => (x.format ?? shortNumber)(value) }];
  /** @type {uPlot.Band[]} */
  const bands = [];
  /** @type {(Line | undefined)[]} */
  const lineOf = [undefined]; // by column
  for (const line of lines) {
    const rows = Array.from(line.x, (_, i) => i).filter((i) => isDrawn(line.x[i], x));
    const column = (/** @type {ArrayLike<number>} */ values) => rows.map((i) => (isDrawn(values[i], y) ? values[i] : null));
    const columns = [rows.map((i) => line.x[i]), column(line.y)];
    series.push(seriesOf(line, y));
    lineOf.push(line);
    if (line.low && line.high && line.low.length > 0) {
      columns.push(column(line.high), column(line.low));
      const edge = { class: QUIET, stroke: 'transparent', points: { show: false } };
      series.push(edge, { ...edge });
      lineOf.push(undefined, undefined);
      bands.push({ series: [series.length - 2, series.length - 1], fill: `${line.color}2e` });
    }
    tables.push(/** @type {uPlot.AlignedData} */ (/** @type {unknown} */ (columns)));
  }
  return { data: uPlot.join(tables), series, bands, lineOf };
}

/**
 * What uPlot has no shape for: diamonds, and the dot at the end of a line that goes on.
 * @param {uPlot} plot
 * @param {number} column
 * @param {Line | undefined} line
 */
function drawShapes(plot, column, line) {
  if (!line || (line.stroke !== 'diamonds' && !line.going)) return;
  const { ctx } = plot;
  const places = [...(plot.data[column] ?? []).keys()].filter((i) => typeof plot.data[column][i] === 'number');
  ctx.save();
  ctx.fillStyle = line.color;
  for (const i of line.stroke === 'diamonds' ? places : places.slice(-1)) {
    const x = plot.valToPos(plot.data[0][i], 'x', true);
    const y = plot.valToPos(/** @type {number} */ (plot.data[column][i]), 'y', true);
    const reach = DIAMOND * devicePixelRatio;
    ctx.beginPath();
    if (line.going) ctx.arc(x, y, 0.65 * reach, 0, 2 * Math.PI);
    else for (const [dx, dy] of [[0, -reach], [reach, 0], [0, reach], [-reach, 0]]) ctx.lineTo(x + dx, y + dy);
    ctx.fill();
  }
  ctx.restore();
}

export class LineChart {
  /** @param {HTMLElement} container @param {ChartOptions} options */
  constructor(container, options) {
    this.options = options;
    /** @type {ChartContent} */
    this.content = { lines: [], x: {}, y: {} };
    /** @type {uPlot | null} */
    this.plot = null;
    /** @type {number | null} */
    this.at = null; // x under the crosshair
    this.root = makeElement('div', 'lc', container);
    this.stage = makeElement('div', 'lc-stage', this.root);
    this.stage.tabIndex = 0;
    this.stage.style.minHeight = `${options.height}px`;
    this.stage.setAttribute('role', 'img');
    this.stage.addEventListener('keydown', (event) => this.key(event));
    this.stage.addEventListener('blur', () => this.showAt(null));
    this.values = makeElement('div', options.legend ? 'lc-legend' : 'lc-tip', this.root);
    this.values.hidden = !options.legend;
    if (!options.legend) this.values.setAttribute('aria-live', 'polite');
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.root);
  }

  /** @param {ChartContent} content */
  set(content) {
    this.content = content;
    this.draw();
  }
  destroy() {
    this.observer.disconnect();
    this.plot?.destroy();
    this.root.remove();
  }

  resize() {
    const width = this.root.clientWidth;
    if (!this.plot) this.draw();
    else if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.options.height });
  }
  draw() {
    this.plot?.destroy();
    this.plot = null;
    this.stage.setAttribute('aria-label', this.describe());
    const width = this.root.clientWidth;
    if (width === 0) return; // not shown yet; the observer tells
    const drawn = this.content.lines.some((line) => line.x.length > 0);
    this.stage.classList.toggle('lc-empty', !drawn);
    this.stage.replaceChildren(drawn ? '' : (this.options.empty ?? ''));
    this.values.replaceChildren();
    if (drawn) this.plot = this.makePlot(width);
    else this.read();
  }
  /** @param {number} width */
  makePlot(width) {
    const { at, content } = this;
    const { lines, x, y } = content;
    const { height, legend = false } = this.options;
    const { data, series, bands, lineOf } = align(content);
    this.lineOf = lineOf;
    const xRange = rangeOf(x, lines.map((line) => line.x), 0);
    const yRange = rangeOf(y, lines.filter((line) => !line.faint).map((line) => line.y), 0.05);
    return new uPlot(
      {
        width,
        height,
        series,
        bands,
        scales: { x: scaleOf(x, xRange), y: scaleOf(y, yRange) },
        axes: [axisOf(x, 'x', xRange), axisOf(y, 'y', yRange)],
        legend: {
          show: legend,
          mount: (_plot, table) => this.values.append(table),
          markers: { width: 0, fill: (_plot, column) => lineOf[column]?.color ?? 'transparent' },
        },
        cursor: { drag: { x: false, y: false }, y: legend, points: { size: 7 }, hover: { prox: 1e6 } },
        plugins: [marksPlugin(content)],
        hooks: {
          drawSeries: [(plot, column) => drawShapes(plot, column, lineOf[column])],
          ready: [(plot) => this.showAt(at, plot)],
          setCursor: [(plot) => this.read(plot)],
        },
      },
      data,
      this.stage,
    );
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === 'Escape') this.showAt(null);
    if (step === undefined || !this.plot) return;
    event.preventDefault();
    const xs = this.plot.data[0];
    const from = this.plot.cursor.idx ?? xs.length - 1;
    this.showAt(xs[Math.min(Math.max(from + step, 0), xs.length - 1)]);
  }
  /** @param {number | null} x where the crosshair is to be; nowhere: it is hidden @param {uPlot | null} [plot] */
  showAt(x, plot = this.plot) {
    const left = x === null || !plot ? -10 : plot.valToPos(x, 'x');
    plot?.setCursor({ left, top: left < 0 ? -10 : 0 });
  }
  /**
   * What the curves are at the crosshair, next to it.
   * @param {uPlot} [plot]
   */
  read(plot) {
    const { left = -10, idx, idxs } = plot?.cursor ?? {};
    this.at = !plot || left < 0 ? null : plot.posToVal(left, 'x');
    if (this.options.legend) return;
    const rows = (this.at === null ? [] : (this.lineOf ?? [])).flatMap((line, column) => {
      const y = plot?.data[column]?.[idxs?.[column] ?? -1];
      return line && !line.quiet && !line.faint && typeof y === 'number' ? [{ line, y }] : [];
    });
    this.values.hidden = rows.length === 0;
    if (!plot || rows.length === 0) return;
    const { x, y } = this.content;
    this.values.replaceChildren();
    const place = plot.data[0][idx ?? 0];
    const name = place < 1e6 ? String(Number(place.toFixed(2))) : (x.format ?? shortNumber)(place);
    makeElement('div', '', this.values, `${x.label ?? 'x'} ${name}`);
    for (const row of rows.sort((a, b) => b.y - a.y).slice(0, MOST_ROWS)) {
      const line = makeElement('div', '', this.values);
      makeElement('span', '', line, row.line.name).style.color = row.line.color;
      makeElement('b', '', line, (y.format ?? shortNumber)(row.y));
    }
    const pixel = plot.over.offsetLeft + left;
    const onLeft = pixel > this.root.clientWidth / 2;
    this.values.style.left = onLeft ? '' : `${pixel + 12}px`;
    this.values.style.right = onLeft ? `${this.root.clientWidth - pixel + 12}px` : '';
  }
  /** The last values, for people who listen. */
  describe() {
    const { lines, y } = this.content;
    const parts = lines
      .filter((line) => line.name && !line.quiet && !line.faint && line.y.length > 0)
      .map((line) => `${line.name} ${(y.format ?? shortNumber)(line.y[line.y.length - 1])}`);
    return `${this.options.label}: ${parts.join(', ') || 'nothing to draw'}. Arrow keys move the crosshair.`;
  }
}
