// Attention of one run on one sample: asks the server for the record, reads it and draws every head.
import { SEQUENTIAL } from "/live/colors.js";
import { ask, askWithStatus } from "/live/runs.js";
import { number } from "/live/plot.js";

const THUMB = 84;
const half = (bits) => {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
};

// A safetensors file: length of the head, the head as JSON, the tensors.
const readRecord = (buffer) => {
  const view = new DataView(buffer);
  const size = Number(view.getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  const layers = [];
  for (let l = 0; head[`layer.${l}.weights`]; ++l) {
    const { dtype, shape, data_offsets: [begin, end] } = head[`layer.${l}.weights`];
    const bytes = buffer.slice(8 + size + begin, 8 + size + end);
    const values = dtype === "F32" ? new Float32Array(bytes) : Float32Array.from(new Uint16Array(bytes), half);
    layers.push({ heads: shape[0], tokens: shape[1], values });
  }
  if (!layers.length) throw new Error("the record has no maps");
  return { layers, example: JSON.parse(head.__metadata__?.["posenc.attention"] ?? "{}") };
};

// A head's map, drawn so that the largest weight of every pixel shows.
const paint = (canvas, layer, head, side) => {
  const n = layer.tokens;
  const size = Math.min(side, Math.max(n, 1) > side ? side : n * Math.max(1, Math.floor(side / n)));
  canvas.width = canvas.height = size;
  const g = canvas.getContext("2d");
  const image = g.createImageData(size, size);
  const from = head * n * n;
  const first = (p) => Math.floor(p * n / size);
  const past = (p) => Math.max(first(p) + 1, Math.floor((p + 1) * n / size));
  for (let y = 0; y < size; ++y) {
    for (let x = 0; x < size; ++x) {
      let most = 0;
      for (let i = first(y); i < past(y); ++i) {
        for (let j = first(x); j < past(x); ++j) most = Math.max(most, layer.values[from + i * n + j]);
      }
      const [r, gr, b] = SEQUENTIAL[Math.round(Math.min(Math.sqrt(most), 1) * 255)];
      image.data.set([r, gr, b, 255], 4 * (y * size + x));
    }
  }
  g.putImageData(image, 0, 0);
};

export class AttentionView {
  constructor(parts) {
    this.parts = parts;
    this.turn = 0;  // an answer to an older wish is dropped
    parts.form.addEventListener("submit", (event) => { event.preventDefault(); this.compute(); });
    parts.records.addEventListener("change", () => parts.records.value && this.load(parts.records.value));
  }

  open(run) {
    ++this.turn;
    this.run = run;
    this.record = null;
    this.parts.length.value = run.train_length || 32;
    this.say("");
    this.parts.holder.replaceChildren();
    this.list();
  }

  say(text, failed = false) {
    this.parts.state.textContent = text;
    this.parts.state.className = failed ? "error" : "";
  }

  async list() {
    const { records } = await ask(`${this.run.url}attention`).catch(() => ({ records: [] }));
    const options = records.map((r) => new Option(`${r.axis} T ${r.length} sample ${r.sample}${r.best ? " best" : ""}`, r.url));
    this.parts.records.replaceChildren(new Option(options.length ? "choose …" : "none yet", ""), ...options);
  }

  // Asks until the server has it: 202 while it is computed, 503 while it computes something else.
  async compute() {
    const turn = ++this.turn;
    const url = `${this.run.url}attention?sample=${this.parts.sample.value}&length=${this.parts.length.value}`;
    const since = Date.now();
    while (turn === this.turn) {
      try {
        const { status, body } = await askWithStatus(url);
        if (turn !== this.turn) return;
        if (status === 200) {
          await this.load(body.record.url);
          await this.list();
          this.parts.records.value = body.record.url;
          return;
        }
        this.say(`computing, ${Math.round((Date.now() - since) / 1000)} s`);
      } catch (error) {
        if (turn !== this.turn) return;
        if (error.status !== 503) { this.say(error.message, true); return; }
        this.say("waiting for another sample");
      }
      await new Promise((resolve) => { setTimeout(resolve, 1000); });
    }
  }

  async load(url) {
    const turn = ++this.turn;
    try {
      const answer = await fetch(url);
      if (!answer.ok) throw new Error((await answer.json()).error);
      const record = readRecord(await answer.arrayBuffer());
      if (turn !== this.turn) return;
      this.record = record;
      this.chosen = { layer: 0, head: 0 };
      this.say("");
      this.draw();
    } catch (error) {
      if (turn === this.turn) this.say(error.message, true);
    }
  }

  draw() {
    if (!this.record) return;
    const { layers } = this.record;
    const maps = document.createElement("div");
    maps.className = "maps";
    const most = Math.max(...layers.map((layer) => layer.heads));
    maps.style.gridTemplateColumns = `auto repeat(${most}, auto)`;
    layers.forEach((layer, l) => {
      const name = document.createElement("span");
      name.className = "layer";
      name.textContent = `layer ${l}`;
      maps.append(name);
      for (let h = 0; h < layer.heads; ++h) maps.append(this.thumb(layer, l, h));
      for (let h = layer.heads; h < most; ++h) maps.append(document.createElement("span"));
    });
    this.parts.holder.replaceChildren(maps, this.big());
  }

  thumb(layer, l, h) {
    const button = document.createElement("button");
    button.type = "button";
    button.title = `layer ${l}, head ${h}`;
    button.setAttribute("aria-label", button.title);
    button.setAttribute("aria-pressed", String(this.chosen.layer === l && this.chosen.head === h));
    const canvas = document.createElement("canvas");
    paint(canvas, layer, h, THUMB);
    canvas.style.width = canvas.style.height = `${THUMB}px`;
    canvas.style.imageRendering = "pixelated";
    button.append(canvas);
    button.addEventListener("click", () => { this.chosen = { layer: l, head: h }; this.draw(); });
    return button;
  }

  big() {
    const { layer: l, head: h } = this.chosen;
    const layer = this.record.layers[l];
    const box = document.createElement("div");
    box.className = "big";
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `Layer ${l}, head ${h}; arrow keys choose query and key`);
    paint(canvas, layer, h, 480);
    const side = Math.max(canvas.width, 360);
    canvas.style.width = `${side}px`;
    canvas.style.imageRendering = "pixelated";
    const readout = document.createElement("div");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    let place = { i: layer.tokens - 1, j: 0 };
    const show = () => this.readout(readout, layer, l, h, place);
    canvas.addEventListener("pointermove", (event) => {
      const cell = (p) => Math.min(Math.max(Math.floor(p / canvas.clientWidth * layer.tokens), 0), layer.tokens - 1);
      place = { i: cell(event.offsetY), j: cell(event.offsetX) };
      show();
    });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (!(event.key in moves)) return;
      event.preventDefault();
      const clamp = (x) => Math.min(Math.max(x, 0), layer.tokens - 1);
      place = { i: clamp(place.i + moves[event.key][0]), j: clamp(place.j + moves[event.key][1]) };
      show();
    });
    show();
    box.append(canvas, readout);
    return box;
  }

  readout(holder, layer, l, h, { i, j }) {
    const tokens = this.record.example.tokens ?? [];
    const named = (k) => `${k}${tokens[k] === undefined ? "" : ` “${tokens[k]}”`}`;
    const scored = (this.record.example.scored ?? []).find((s) => s.position === i);
    const lines = [`layer ${l}, head ${h}`, `query ${named(i)}`, `key ${named(j)}`, `distance ${i - j}`,
      `weight ${number(layer.values[(h * layer.tokens + i) * layer.tokens + j])}`];
    if (scored) lines.push(`answer ${scored.expected}, the model says ${scored.predicted}`);
    const scale = document.createElement("div");
    scale.className = "scale";
    const colors = SEQUENTIAL.filter((_, k) => k % 15 === 0).map((c) => `rgb(${c})`);
    scale.style.background = `linear-gradient(90deg, ${colors})`;
    const ends = document.createElement("div");
    ends.className = "ends";
    for (const text of ["0", "0.25", "1"]) ends.append(Object.assign(document.createElement("span"), { textContent: text }));
    holder.replaceChildren(...lines.map((text) => Object.assign(document.createElement("div"), { textContent: text })), scale, ends);
  }
}
