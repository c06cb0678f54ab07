// The runs as the server knows them, kept up to date: lists every second, rows as they are added.

const fetchJson = async (url) => {
  const answer = await fetch(url, { cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok && answer.status !== 202) throw Object.assign(new Error(body.error), { status: answer.status });
  return { status: answer.status, body };
};

export const ask = async (url) => (await fetchJson(url)).body;
export const askWithStatus = fetchJson;

const empty = () => ({
  step: [], tokens: [], seconds: [], loss: [], accuracy: [], evals: [],
});

// JSON has no NaN: null in its place breaks a curve as NaN does.
const real = (x) => (typeof x === "number" ? x : NaN);

// An evaluation during training: in domain, which chooses checkpoints, or another condition of train.eval_conditions.
const IN_DOMAIN = "in domain";
const conditionOf = (row) => ((row.axis ?? "train") === "train" ? IN_DOMAIN : `${row.axis} ${row.length}`);

export class Curves {
  constructor() {
    this.from = 0;
    this.rows = empty();
  }

  // Fetches what is new; true where there was something.
  async update(url) {
    let changed = false;
    for (let more = true; more;) {
      const part = await ask(`${url}metrics?from=${this.from}`);
      if (part.restarted) { this.rows = empty(); changed = true; }
      part.rows.forEach((row) => this.add(row));
      changed = changed || part.rows.length > 0;
      more = part.more;
      this.from = part.next;
    }
    return changed;
  }

  // A resumed run does steps again: what was known of them and of later ones is forgotten.
  add(row) {
    const r = this.rows;
    if (row.kind === "eval" && typeof row.value === "number") {
      const repeated = (e) => e.step > row.step || (e.step === row.step && conditionOf(e) === conditionOf(row));
      r.evals = r.evals.filter((e) => !repeated(e));
      r.evals.push(row);
    }
    if (row.kind !== "train") return;
    let keep = r.step.length;
    while (keep > 0 && r.step[keep - 1] >= row.step) --keep;
    for (const key of ["step", "tokens", "seconds", "loss", "accuracy"]) {
      r[key].length = keep;
      r[key].push(real(row[key]));
    }
  }

  // Where an evaluation stands on an axis: at the row of its step.
  marks(axis, condition = IN_DOMAIN) {
    const r = this.rows;
    return r.evals.filter((e) => conditionOf(e) === condition).map((e) => {
      const i = r.step.findIndex((step) => step >= e.step);
      // An error is drawn as the share that is right; bits are no share.
      const right = { accuracy: e.value, error: 1 - e.value }[e.metric ?? "accuracy"] ?? NaN;
      return { x: axis === "step" ? e.step : r[axis][i < 0 ? r.step.length - 1 : i], y: right };
    }).filter((m) => m.x !== undefined && m.y >= 0 && m.y <= 1);
  }

  // The other conditions that were evaluated during training, in order of appearance.
  conditions() {
    return [...new Set(this.rows.evals.map(conditionOf))].filter((name) => name !== IN_DOMAIN);
  }
}

// "killed": it says that it runs, and nobody holds its lock.
export const stateOf = (run) => {
  if (run.error) return "unreadable";
  if (run.status.state === "running" && !run.in_use) return "killed";
  return run.status.state;
};

export const isRunning = (run) => stateOf(run) === "running";

export const duration = (seconds) => {
  if (seconds === null || seconds === undefined) return "";
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, "0");
  return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
    : `${Math.floor(s / 60)}:${two(s % 60)}`;
};
