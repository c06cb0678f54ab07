// One run in detail: facts, results, quality by position, attention, config.
import { byId, makeElement } from '../shared/page_parts.js';
import { shortNumber } from '../shared/value_scale.js';
import { inBits, positionLines } from './positions.js';
import { SHARE_AXIS, ask, duration, nameOf, percent, shortCount, stateOf } from './runs.js';

/** @typedef {import('./runs.js').Run} Run */

export class RunDetails {
  /**
   * @param {import('../shared/line_chart.js').LineChart} chart by position
   * @param {import('./attention_request.js').AttentionRequest} attention
   * @param {() => string[]} palette
   */
  constructor(chart, attention, palette) {
    this.chart = chart;
    this.attention = attention;
    this.palette = palette;
    /** @type {{tag?: string | null, path?: string, results?: any}} */
    this.shown = {};
  }

  /** @param {Run | undefined} run */
  async show(run) {
    byId('details').hidden = !run || Boolean(run.error);
    if (!run || run.error) return;
    this.showFacts(run);
    const tag = `${run.path}|${run.evaluated}|${run.status.state}`;
    if (this.shown.tag === tag) return;
    if (this.shown.path !== run.path) this.attention.open(run);
    /** @type {RunDetails['shown']} */
    const shown = { tag, path: run.path };
    this.shown = shown;
    try {
      const config = await ask(`${run.url}config`);
      const results = run.evaluated ? await ask(`${run.url}results`) : null;
      if (this.shown !== shown) return; // another run was chosen meanwhile
      byId('config').textContent = config.text;
      shown.results = results;
      if (results) this.showResults(results);
      else byId('results').textContent = 'Not evaluated yet: posenc train does so at its end.';
      this.drawPositions();
    } catch (error) {
      if (this.shown !== shown) return;
      shown.tag = null; // try again
      byId('results').replaceChildren(makeElement('p', 'error', null, /** @type {Error} */ (error).message));
    }
  }
  /** @param {Run} run */
  showFacts(run) {
    const { step, total, seconds_left, loss, accuracy, tokens_per_s } = run.progress;
    const facts = Object.entries({
      state: stateOf(run) + (run.status.message ? `: ${run.status.message}` : ''),
      encoding: run.encoding,
      task: run.task,
      seed: run.seed,
      step: `${step} of ${total ?? '?'}`,
      left: duration(seconds_left),
      loss: shortNumber(loss),
      accuracy: percent(accuracy),
      speed: tokens_per_s === null ? '–' : `${shortCount(tokens_per_s)} tokens/s`,
    }).filter(([, value]) => value !== '' && value !== null);
    byId('detail-name').textContent = nameOf(run);
    byId('facts').replaceChildren();
    for (const [name, value] of facts) {
      const fact = makeElement('div', '', byId('facts'));
      makeElement('span', '', fact, name);
      fact.append(String(value));
    }
  }
  /** @param {any} results */
  showResults(results) {
    const lineOf = (/** @type {any} */ row) => `${row.axis}${row.schedule ? ` (${row.schedule})` : ''}`;
    const format = inBits(results.metric) ? shortNumber : percent;
    /** @type {number[]} */
    const lengths = [...new Set(results.rows.map((/** @type {any} */ row) => row.length))];
    lengths.sort((a, b) => a - b);
    byId('results').replaceChildren();
    const table = makeElement('table', '', byId('results'));
    const head = makeElement('tr', '', table);
    makeElement('th', '', head, `${results.metric} by axis`);
    for (const length of lengths) makeElement('th', '', head, `T ${length}`);
    for (const name of new Set(results.rows.map(lineOf))) {
      const line = makeElement('tr', '', table);
      makeElement('td', '', line, String(name));
      for (const length of lengths) {
        const row = results.rows.find((/** @type {any} */ r) => r.length === length && lineOf(r) === name);
        const cell = makeElement('td', '', line, row ? format(row.value ?? null) : '');
        if (row?.low === undefined || row.low === null) continue;
        cell.title = [
          `positions ${row.from} to ${row.to}`,
          `95 % over rows: ${shortNumber(row.low)} to ${shortNumber(row.high)}`,
          `last eighth: ${shortNumber(row.last_eighth?.value)}`,
          `all positions: ${shortNumber(row.all?.value)}`,
        ].join('; ');
      }
    }
    const note = `Longer rows are scored on the positions beyond the trained length, ${results.train_length}.`;
    makeElement('p', '', byId('results'), note);
  }
  drawPositions() {
    const { results } = this.shown;
    const lines = results ? positionLines(results, this.palette()) : [];
    byId('position-figure').hidden = lines.length === 0;
    const y = inBits(results?.metric) ? {} : SHARE_AXIS;
    const rules = [{ at: results?.train_length, label: 'trained', vertical: true }];
    this.chart.set({ lines, x: { label: 'position', include: 0 }, y, rules });
    byId('position-names').replaceChildren();
    for (const { name, color } of lines.filter((line) => !line.dash)) {
      const item = makeElement('span', 'named', byId('position-names'));
      makeElement('span', 'swatch', item).style.background = color;
      item.append(name);
    }
  }
}
