// The runs as the server knows them: what it answers, and the curves of a run as rows are added.
import { shortNumber } from '../shared/value_scale.js';

/** @typedef {number | null} Figure null: unknown */
/** @typedef {{step: number, total: Figure, seconds_left: Figure, loss: Figure, accuracy: Figure, tokens_per_s: Figure}} Progress */
/** @typedef {{state: string, message: string}} RunStatus */
/**
 * Of /api/runs. A run that cannot be read has path, url and error.
 * @typedef {{path: string, url: string, error?: string, status: RunStatus, in_use: boolean, progress: Progress,
 *   encoding: string, task: string, seed: Figure, train_length: number, evaluated: boolean, metrics_bytes: number,
 *   updated: number}} Run
 */
/** @typedef {'step' | 'tokens' | 'seconds'} XAxis */
/** @typedef {{step: number, value: number, axis?: string, length?: number, metric?: string}} Evaluation */

/** @param {string} url @returns {Promise<{status: number, body: any}>} */
export async function askWithStatus(url) {
  const answer = await fetch(url, { cache: 'no-store' });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.error), { status: answer.status });
  return { status: answer.status, body };
}
/** @param {string} url */
export const ask = async (url) => (await askWithStatus(url)).body;

const IN_DOMAIN = 'in domain';
/**
 * Of an evaluation during training: in domain, which chooses checkpoints, or another one of train.eval_conditions.
 * @param {Evaluation} row
 */
const conditionOf = (row) => ((row.axis ?? 'train') === 'train' ? IN_DOMAIN : `${row.axis} ${row.length}`);

/** @returns {Record<XAxis | 'loss' | 'accuracy', number[]>} */
const noRows = () => ({ step: [], tokens: [], seconds: [], loss: [], accuracy: [] });

export class Curves {
  constructor() {
    this.from = 0; // bytes of metrics.jsonl that were read
    this.busy = false;
    this.rows = noRows();
    /** @type {Evaluation[]} */
    this.evaluations = [];
  }

  /** @param {string} url of the run */
  async update(url) {
    for (let more = true; more; ) {
      const part = await ask(`${url}metrics?from=${this.from}`);
      if (part.restarted) [this.rows, this.evaluations] = [noRows(), []];
      for (const row of part.rows) this.add(row);
      more = part.more;
      this.from = part.next;
    }
  }

  /**
   * A resumed run does steps again: what was known of them and of later ones is forgotten.
   * @param {any} row of metrics.jsonl
   */
  add(row) {
    if (row.kind === 'eval' && typeof row.value === 'number') {
      const repeated = (/** @type {Evaluation} */ e) =>
        e.step > row.step || (e.step === row.step && conditionOf(e) === conditionOf(row));
      this.evaluations = [...this.evaluations.filter((e) => !repeated(e)), row];
    }
    if (row.kind !== 'train') return;
    const { step } = this.rows;
    let keep = step.length;
    while (keep > 0 && step[keep - 1] >= row.step) --keep;
    for (const [key, values] of Object.entries(this.rows)) {
      values.length = keep;
      values.push(typeof row[key] === 'number' ? row[key] : NaN); // JSON has no NaN, but null
    }
  }

  /**
   * Accuracies of a condition, each at the row of its step. An error is one minus the accuracy; bits are neither.
   * @param {XAxis} axis
   * @param {string} condition
   */
  evaluated(axis, condition = IN_DOMAIN) {
    const { rows } = this;
    const points = this.evaluations
      .filter((e) => conditionOf(e) === condition)
      .map((e) => {
        const i = rows.step.findIndex((step) => step >= e.step);
        const y = { accuracy: e.value, error: 1 - e.value }[e.metric ?? 'accuracy'] ?? NaN;
        return { x: axis === 'step' ? e.step : (rows[axis].at(i) ?? NaN), y };
      })
      .filter(({ y }) => y >= 0 && y <= 1);
    return { x: points.map(({ x }) => x), y: points.map(({ y }) => y) };
  }

  /** The other conditions that were evaluated during training, in order of appearance. */
  conditions() {
    return [...new Set(this.evaluations.map(conditionOf))].filter((name) => name !== IN_DOMAIN);
  }
}

/**
 * An exponential moving average, without a bias to the first values; NaN stays.
 * @param {number[]} values
 * @param {number} weight of what came before
 */
export function smoothed(values, weight) {
  let sum = 0;
  let share = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return NaN;
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

/**
 * "killed": its status says that it runs, and no process holds its lock.
 * @param {Run} run
 */
export function stateOf(run) {
  if (run.error) return 'unreadable';
  return run.status.state === 'running' && !run.in_use ? 'killed' : run.status.state;
}

/** @param {Run} run */
export const nameOf = (run) => run.path || '(this folder)';
/** @param {Run} run */
export const isRunning = (run) => stateOf(run) === 'running';

/**
 * "1:02:03", or "" where it is unknown.
 * @param {Figure} seconds
 */
export function duration(seconds) {
  if (seconds === null) return '';
  const s = Math.round(seconds);
  const parts = [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60].slice(s >= 3600 ? 0 : 1);
  return parts.map((n, i) => (i === 0 ? String(n) : String(n).padStart(2, '0'))).join(':');
}

/**
 * "12.3k" of 12345.
 * @param {number} value
 */
export function shortCount(value) {
  const unit = [1e9, 1e6, 1e3].find((u) => value >= u) ?? 1;
  return `${Number((value / unit).toPrecision(3))}${{ 1e9: 'G', 1e6: 'M', 1e3: 'k' }[unit] ?? ''}`;
}

/** @param {Figure} share */
export const percent = (share) => (share === null ? '–' : `${shortNumber(100 * share)} %`);
export const SHARE_AXIS = { range: [-0.02, 1.02], format: percent };
