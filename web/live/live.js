// The live page: runs on the left, their curves on the right, one run in detail below.
import { AttentionView } from '../shared/attention.js';
import { LineChart } from '../shared/line_chart.js';
import { colorTables } from '../shared/map_data.js';
import { addThemeChoice, byId, onThemeChange, pageIsDark } from '../shared/page_parts.js';
import { AttentionRequest } from './attention_request.js';
import { RunDetails } from './run_details.js';
import { RunList } from './run_list.js';
import { Curves, SHARE_AXIS, ask, isRunning, nameOf, shortCount, smoothed } from './runs.js';

/** @typedef {import('../shared/line_chart.js').Line} Line */
/** @typedef {import('./runs.js').Run} Run */
/** @typedef {import('./runs.js').XAxis} XAxis */

// Colours first, then dashes.
const DASHES = [[], [6, 4], [2, 3]];
const MOST_AT_FIRST = 8; // runs that are drawn without being chosen

/** @param {string} id */
const inputOf = (id) => /** @type {HTMLInputElement} */ (byId(id));

class LivePage {
  /** @param {any} colors of /live/colors.json */
  constructor(colors) {
    /** @type {{light: string[], dark: string[]}} */
    this.colors = colors.curves;
    /** @type {Run[]} */
    this.runs = [];
    /** @type {Set<string>} */
    this.chosen = new Set(); // paths that are drawn
    this.touched = false; // did the reader choose?
    /** @type {string | null} */
    this.focused = null;
    /** @type {Map<string, number>} */
    this.order = new Map(); // path -> colour, for as long as the page is open
    /** @type {Map<string, Curves>} */
    this.curves = new Map();
    this.drawnTag = '';
    const chart = (/** @type {string} */ id, /** @type {string} */ label) =>
      new LineChart(byId(id), { label, height: 290, empty: 'Choose a run with measurements on the left' });
    this.loss = chart('plot-loss', 'Training loss');
    this.accuracy = chart('plot-accuracy', 'Training accuracy');
    const maps = { sequential: colorTables(colors.sequential), diverging: colorTables(colors.diverging) };
    const form = /** @type {HTMLFormElement} */ (byId('attention-form'));
    const attention = new AttentionRequest(form, new AttentionView(byId('attention'), maps));
    this.details = new RunDetails(chart('plot-position', 'Quality by position'), attention, () => this.palette());
    this.list = new RunList(byId('runs'), {
      choose: (path, drawn) => this.choose([...this.chosen].filter((p) => p !== path).concat(drawn ? path : [])),
      focus: (path) => this.focus(path),
    });
    this.listen();
    this.loadState();
  }

  listen() {
    addThemeChoice(/** @type {Element} */ (document.querySelector('header')));
    onThemeChange(() => {
      this.render();
      this.details.drawPositions();
    });
    for (const id of ['log', 'smooth', 'axis']) byId(id).addEventListener('input', () => this.drawCurves());
    byId('filter').addEventListener('input', () => this.renderList());
    byId('select-none').addEventListener('click', () => this.choose([]));
    byId('select-running').addEventListener('click', () => this.choose(this.runs.filter(isRunning).map((run) => run.path)));
  }

  // --- what is drawn --------------------------------------------------------------------------------

  palette() {
    return this.colors[pageIsDark() ? 'dark' : 'light'];
  }
  /** @param {string} path */
  styleOf(path) {
    if (!this.order.has(path)) this.order.set(path, this.order.size);
    const i = this.order.get(path) ?? 0;
    const colors = this.palette();
    return { color: colors[i % colors.length], dash: DASHES[Math.floor(i / colors.length) % DASHES.length] };
  }
  drawnRuns() {
    return this.runs.filter((run) => this.chosen.has(run.path) && this.curves.has(run.path));
  }
  /**
   * The curve of a run, smoothed, with what was measured faintly behind it.
   * @param {Run} run
   * @param {'loss' | 'accuracy'} key
   * @param {XAxis} axis
   * @param {number} smooth
   * @returns {Line[]}
   */
  trainingLines(run, key, axis, smooth) {
    const { rows } = this.curvesOf(run);
    const width = run.path === this.focused ? 2.6 : 1.7;
    const line = { ...this.styleOf(run.path), name: nameOf(run), x: rows[axis], y: rows[key], width };
    const behind = smooth > 0 ? [{ ...line, faint: true }] : [];
    return [...behind, { ...line, y: smoothed(rows[key], smooth), going: isRunning(run) }];
  }
  /**
   * Evaluations during training: diamonds, and for conditions of train.eval_conditions a dotted line.
   * @param {Run} run
   * @param {XAxis} axis
   * @returns {Line[]}
   */
  evaluationLines(run, axis) {
    const curves = this.curvesOf(run);
    const { color } = this.styleOf(run.path);
    const diamonds = { name: '', color, stroke: 'diamonds', quiet: true };
    const others = curves.conditions().flatMap((condition) => {
      const points = curves.evaluated(axis, condition);
      return [{ ...points, name: `${nameOf(run)}: ${condition}`, color, dash: [2, 3] }, { ...diamonds, ...points }];
    });
    return [...others, { ...diamonds, ...curves.evaluated(axis) }];
  }
  /** @param {Run} run */
  curvesOf(run) {
    return this.curves.get(run.path) ?? new Curves();
  }
  drawCurves() {
    const axis = /** @type {XAxis} */ (inputOf('axis').value);
    const smooth = Number(inputOf('smooth').value);
    const log = inputOf('log').checked;
    byId('smooth-value').textContent = smooth.toFixed(2);
    const runs = this.drawnRuns();
    const known = runs.map((run) => [run.path, isRunning(run), this.curvesOf(run).from]);
    const tag = JSON.stringify([axis, smooth, log, pageIsDark(), this.focused, known]);
    if (tag === this.drawnTag) return;
    this.drawnTag = tag;
    const x = { label: axis, include: 0, format: shortCount };
    this.loss.set({ lines: runs.flatMap((run) => this.trainingLines(run, 'loss', axis, smooth)), x, y: { log } });
    const accuracies = runs.flatMap((run) => this.trainingLines(run, 'accuracy', axis, smooth));
    const evaluations = runs.flatMap((run) => this.evaluationLines(run, axis));
    this.accuracy.set({ lines: [...accuracies, ...evaluations], x, y: SHARE_AXIS });
  }

  // --- what is chosen -------------------------------------------------------------------------------

  renderList() {
    const { chosen, focused } = this;
    this.list.show(this.runs, inputOf('filter').value, { chosen, focused, colorOf: (path) => this.styleOf(path).color });
    byId('empty').hidden = this.runs.length > 0;
  }
  /** @param {string[]} paths */
  choose(paths) {
    this.touched = true;
    this.chosen = new Set(paths);
    this.saveState();
    void this.refreshCurves();
  }
  /** @param {string} path */
  focus(path) {
    this.focused = path;
    if (!this.chosen.has(path)) this.choose([...this.chosen, path]);
    this.saveState();
    this.render();
  }

  // --- keeping up -----------------------------------------------------------------------------------

  saveState() {
    const words = new URLSearchParams();
    if (this.touched) words.set('runs', [...this.chosen].join('|'));
    if (this.focused !== null) words.set('run', this.focused);
    history.replaceState(null, '', `#${words}`);
  }
  loadState() {
    const words = new URLSearchParams(location.hash.slice(1));
    const runs = words.get('runs');
    this.touched = runs !== null;
    this.chosen = new Set((runs ?? '').split('|').filter((path) => path !== ''));
    this.focused = words.get('run');
  }
  chooseByItself() {
    if (this.touched) return;
    const going = this.runs.filter(isRunning);
    const latest = this.runs.filter((run) => !run.error).sort((a, b) => b.updated - a.updated);
    const paths = (going.length > 0 ? going : latest).slice(0, MOST_AT_FIRST).map((run) => run.path);
    this.chosen = new Set(paths);
    this.focused ??= paths[0] ?? null;
  }
  async refreshCurves() {
    const wanted = this.runs.filter((run) => this.chosen.has(run.path) && !run.error);
    const updates = wanted.map(async (run) => {
      const curves = this.curvesOf(run);
      this.curves.set(run.path, curves);
      if (curves.busy || curves.from === run.metrics_bytes) return;
      curves.busy = true;
      await curves.update(run.url).finally(() => (curves.busy = false));
    });
    await Promise.all(updates);
    this.render();
  }
  render() {
    this.renderList();
    this.drawCurves();
    void this.details.show(this.runs.find((run) => run.path === this.focused));
  }
  async tick() {
    const connection = byId('connection');
    try {
      if (!document.hidden) {
        const list = await ask('/api/runs');
        this.runs = list.runs;
        byId('folder').textContent = list.folder;
        this.chooseByItself();
        await this.refreshCurves();
        const going = this.runs.filter(isRunning).length;
        connection.className = '';
        connection.textContent = `${going} running of ${this.runs.length}`;
        document.title = going ? `(${going}) posenc: live runs` : 'posenc: live runs';
      }
    } catch (error) {
      const { message } = /** @type {Error} */ (error);
      connection.className = 'lost';
      connection.textContent = message.startsWith('[') ? message : 'the server does not answer';
    }
    setTimeout(() => void this.tick(), 1000);
  }
}

void ask('/live/colors.json').then((colors) => new LivePage(colors).tick());
