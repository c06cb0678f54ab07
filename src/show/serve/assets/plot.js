// A line chart on a canvas: axes, smoothing, a crosshair for mouse and keyboard, light and dark.

export const smoothed = (values, weight) => {
  if (weight <= 0) return values;
  const out = new Array(values.length);
  let sum = 0;
  let share = 0;
  for (let i = 0; i < values.length; ++i) {
    if (Number.isFinite(values[i])) {
      sum = weight * sum + (1 - weight) * values[i];
      share = weight * share + (1 - weight);  // the first values have little before them
    }
    out[i] = share > 0 && Number.isFinite(values[i]) ? sum / share : NaN;
  }
  return out;
};

export const number = (x) => {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return x.toExponential(2);
  return size >= 100 ? x.toFixed(0) : String(Number(x.toPrecision(4)));
};

export const count = (x) => {
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (x >= unit) return `${Number((x / unit).toPrecision(3))}${name}`;
  }
  return String(Math.round(x * 100) / 100);
};

const linearTicks = (low, high, wanted) => {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) ticks.push(t);
  return ticks;
};

const logTicks = (low, high) => {
  const ticks = [];
  const decades = Math.log10(high / low);
  const between = decades < 0.7 ? [1, 1.5, 2, 3, 4, 5, 6, 8] : decades < 2.5 ? [1, 2, 5] : [1];
  for (let p = Math.floor(Math.log10(low)); p <= Math.ceil(Math.log10(high)); ++p) {
    for (const m of between) {
      const t = m * 10 ** p;
      if (t >= low * 0.999 && t <= high * 1.001) ticks.push(t);
    }
  }
  return ticks;
};

const nearest = (xs, x) => {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
};

export class Plot {
  // `range`: fixed [low, high] of y, or nothing. `percent`: y is a share.
  constructor(holder, { label, range = null, percent = false }) {
    this.holder = holder;
    this.options = { label, range, percent };
    this.series = [];
    this.view = { log: false, smooth: 0, xName: "step" };
    this.at = null;  // x of the crosshair
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.tip.setAttribute("aria-live", "polite");
    holder.append(this.canvas, this.tip);
    new ResizeObserver(() => this.draw()).observe(holder);
    this.canvas.addEventListener("pointermove", (e) => this.hover(e.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.show(null));
    this.canvas.addEventListener("blur", () => this.show(null));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
  }

  // [{name, color, dash, x: [], y: [], marks: [{x, y}]}]
  set(series, view) {
    this.series = series.map((s) => ({ ...s, line: smoothed(s.y, view.smooth) }));
    this.view = view;
    this.draw();
  }

  key(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 };
    if (event.key === "Escape") this.show(null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const xs = [...new Set(this.series.flatMap((s) => s.x))].sort((a, b) => a - b);
    if (!xs.length) return;
    const from = this.at === null ? xs.length - 1 : nearest(xs, this.at);
    this.show(xs[Math.min(Math.max(from + moves[event.key], 0), xs.length - 1)]);
  }

  hover(pixel) {
    if (!this.box || pixel < this.box.left || pixel > this.box.right) return this.show(null);
    const share = (pixel - this.box.left) / (this.box.right - this.box.left);
    this.show(this.xs[0] + share * (this.xs[1] - this.xs[0]));
  }

  show(x) {
    this.at = x;
    this.draw();
  }

  limits() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    const see = (y) => {
      if (!Number.isFinite(y) || (this.view.log && y <= 0)) return;
      y0 = Math.min(y0, y);
      y1 = Math.max(y1, y);
    };
    for (const s of this.series) {
      for (const x of s.x) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
      s.line.forEach(see);
      s.marks.forEach((m) => { see(m.y); x1 = Math.max(x1, m.x); });
    }
    if (!(x1 >= x0)) return null;
    if (!(y1 >= y0)) [y0, y1] = [0, 1];
    if (this.options.range) [y0, y1] = this.options.range;
    if (x0 === x1) x1 = x0 + 1;
    if (this.view.log) {
      if (y1 / y0 < 1.2) { y0 /= 1.1; y1 *= 1.1; }
      const pad = (y1 / y0) ** 0.04;
      return { xs: [Math.min(x0, 0), x1], ys: [y0 / pad, y1 * pad] };
    }
    const pad = this.options.range ? 0.02 : (y1 - y0) * 0.05 || 0.1;
    return { xs: [Math.min(x0, 0), x1], ys: [y0 - pad, y1 + pad] };
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.holder;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const g = this.canvas.getContext("2d");
    g.scale(ratio, ratio);
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    g.font = "12px system-ui, sans-serif";
    const limits = this.limits();
    this.box = limits && { left: 58, right: width - 12, top: 8, bottom: height - 34 };
    this.describe();
    if (!limits) {
      g.fillStyle = color("--soft");
      g.textAlign = "center";
      g.fillText("Choose a run with measurements on the left", width / 2, height / 2);
      this.tip.hidden = true;
      return;
    }
    this.xs = limits.xs;
    this.ys = limits.ys;
    this.axes(g, color);
    this.rules(g, color);
    g.save();
    g.beginPath();
    g.rect(this.box.left, this.box.top, this.box.right - this.box.left, this.box.bottom - this.box.top);
    g.clip();
    for (const s of this.series) this.curve(g, s);
    g.restore();
    this.crosshair(g, color);
  }

  px(x) { return this.box.left + (x - this.xs[0]) / (this.xs[1] - this.xs[0]) * (this.box.right - this.box.left); }
  py(y) {
    const f = this.view.log ? Math.log : (v) => v;
    const share = (f(y) - f(this.ys[0])) / (f(this.ys[1]) - f(this.ys[0]));
    return this.box.bottom - share * (this.box.bottom - this.box.top);
  }

  value(y) { return this.options.percent ? `${number(100 * y)} %` : number(y); }

  axes(g, color) {
    const { left, right, top, bottom } = this.box;
    g.strokeStyle = color("--grid");
    g.fillStyle = color("--soft");
    g.lineWidth = 1;
    g.textBaseline = "middle";
    g.textAlign = "right";
    const ticks = this.view.log ? logTicks(...this.ys) : linearTicks(...this.ys, (bottom - top) / 50);
    for (const t of ticks) {
      const y = Math.round(this.py(t)) + 0.5;
      g.beginPath(); g.moveTo(left, y); g.lineTo(right, y); g.stroke();
      g.fillText(this.value(Math.abs(t) < 1e-12 ? 0 : t), left - 7, y);
    }
    g.textAlign = "center";
    g.textBaseline = "top";
    for (const t of linearTicks(...this.xs, (right - left) / 90)) {
      const x = Math.round(this.px(t)) + 0.5;
      g.beginPath(); g.moveTo(x, top); g.lineTo(x, bottom); g.stroke();
      g.fillText(count(t), x, bottom + 5);
    }
    g.textAlign = "right";
    g.fillText(this.view.xName, right, bottom + 19);
    g.strokeStyle = color("--line");
    g.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
  }

  // Upright lines with a word each: where the trained length ends.
  rules(g, color) {
    for (const rule of this.view.rules ?? []) {
      if (rule.x < this.xs[0] || rule.x > this.xs[1]) continue;
      const x = Math.round(this.px(rule.x)) + 0.5;
      g.strokeStyle = color("--soft");
      g.beginPath(); g.moveTo(x, this.box.top); g.lineTo(x, this.box.bottom); g.stroke();
      g.fillStyle = color("--soft");
      g.textAlign = "left";
      g.textBaseline = "top";
      g.fillText(rule.label, x + 4, this.box.top + 4);
    }
  }

  path(g, xs, ys) {
    g.beginPath();
    let pen = false;
    for (let i = 0; i < xs.length; ++i) {
      const drawn = Number.isFinite(ys[i]) && (!this.view.log || ys[i] > 0);
      if (drawn && pen) g.lineTo(this.px(xs[i]), this.py(ys[i]));
      if (drawn && !pen) g.moveTo(this.px(xs[i]), this.py(ys[i]));
      pen = drawn;
    }
    g.stroke();
  }

  curve(g, s) {
    g.strokeStyle = s.color;
    g.lineJoin = "round";
    g.setLineDash(s.dash);
    if (this.view.smooth > 0) {
      g.globalAlpha = 0.22;
      g.lineWidth = 1;
      this.path(g, s.x, s.y);
      g.globalAlpha = 1;
    }
    g.lineWidth = s.focused ? 2.6 : 1.7;
    this.path(g, s.x, s.line);
    g.setLineDash([]);
    g.fillStyle = s.color;
    const last = s.line.length - 1;
    if (s.going && last >= 0 && Number.isFinite(s.line[last])) {
      g.beginPath(); g.arc(this.px(s.x[last]), this.py(s.line[last]), 3.2, 0, 7); g.fill();
    }
    for (const m of s.marks) {
      const [x, y] = [this.px(m.x), this.py(m.y)];
      g.beginPath();
      g.moveTo(x, y - 5); g.lineTo(x + 5, y); g.lineTo(x, y + 5); g.lineTo(x - 5, y);
      g.fill();
    }
  }

  crosshair(g, color) {
    const rows = [];
    let x = this.at;
    if (x !== null) {
      for (const s of this.series) {
        if (!s.x.length) continue;
        const i = nearest(s.x, x);
        if (!Number.isFinite(s.line[i])) continue;
        rows.push({ s, x: s.x[i], y: s.line[i] });
      }
    }
    this.tip.hidden = !rows.length;
    if (!rows.length) return;
    x = rows.reduce((best, r) => (Math.abs(r.x - x) < Math.abs(best - x) ? r.x : best), rows[0].x);
    const pixel = Math.round(this.px(x)) + 0.5;
    g.strokeStyle = color("--soft");
    g.setLineDash([3, 3]);
    g.beginPath(); g.moveTo(pixel, this.box.top); g.lineTo(pixel, this.box.bottom); g.stroke();
    g.setLineDash([]);
    for (const r of rows) {
      g.fillStyle = r.s.color;
      g.beginPath(); g.arc(this.px(r.x), this.py(r.y), 3.6, 0, 7); g.fill();
    }
    this.fillTip(rows, x, pixel);
  }

  fillTip(rows, x, pixel) {
    rows.sort((a, b) => b.y - a.y);
    const lines = rows.slice(0, 12).map((r) => {
      const line = document.createElement("div");
      const name = document.createElement("span");
      name.textContent = r.s.name;
      name.style.color = r.s.color;
      const value = document.createElement("b");
      value.textContent = this.value(r.y);
      line.append(name, value);
      return line;
    });
    const head = document.createElement("div");
    head.textContent = `${this.view.xName} ${x < 1e6 ? Number(x.toFixed(2)) : count(x)}`;
    this.tip.replaceChildren(head, ...lines);
    const onLeft = pixel > this.holder.clientWidth / 2;
    this.tip.style.left = onLeft ? "" : `${pixel + 12}px`;
    this.tip.style.right = onLeft ? `${this.holder.clientWidth - pixel + 12}px` : "";
    this.tip.style.top = "14px";
  }

  describe() {
    const parts = this.series.filter((s) => s.line.length)
      .map((s) => `${s.name} ${this.value(s.line[s.line.length - 1])}`);
    this.canvas.setAttribute("aria-label",
      `${this.options.label}: ${parts.join(", ") || "nothing to draw"}. Arrow keys move the crosshair.`);
  }
}
