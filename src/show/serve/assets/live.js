// The live page: runs on the left, their curves on the right, one run in detail below.
import { AttentionView } from "/live/attention.js";
import { CURVES } from "/live/colors.js";
import { Plot, count, number } from "/live/plot.js";
import { positionSeries, positionView } from "/live/positions.js";
import { Curves, ask, duration, isRunning, stateOf } from "/live/runs.js";

const $ = (id) => document.getElementById(id);
// Colours first, then dashes.
const DASHES = [[], [6, 4], [2, 3]];
const MOST_AT_FIRST = 8;

const state = {
  runs: [],
  chosen: new Set(),   // paths that are drawn
  touched: false,      // has somebody chosen?
  focused: null,
  order: new Map(),    // path -> colour, for as long as the page is open
  curves: new Map(),   // path -> Curves
  shown: {},           // what the details show
};

const plots = {
  loss: new Plot($("plot-loss"), { label: "Training loss" }),
  accuracy: new Plot($("plot-accuracy"), { label: "Training accuracy", range: [0, 1], percent: true }),
  position: new Plot($("plot-position"), { label: "Quality by position" }),
};
const attention = new AttentionView({
  form: $("attention-form"), sample: $("sample"), length: $("length"), records: $("records"),
  state: $("attention-state"), holder: $("attention"),
});

// --- theme ------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => {
  const wish = $("theme").value;
  return wish === "auto" ? (dark.matches ? "dark" : "light") : wish;
};
const applyTheme = () => {
  document.documentElement.dataset.theme = theme();
  localStorage.setItem("posenc-theme", $("theme").value);
  render();
  drawPositions();
  attention.draw();
};

// --- what is drawn ----------------------------------------------------------------------------------

const style = (path) => {
  if (!state.order.has(path)) state.order.set(path, state.order.size);
  const i = state.order.get(path);
  const colors = CURVES[theme()];
  return { color: colors[i % colors.length], dash: DASHES[Math.floor(i / colors.length) % DASHES.length] };
};

const label = (run) => run.path || "(this folder)";

const series = (key) => {
  const axis = $("axis").value;
  return state.runs.filter((run) => state.chosen.has(run.path) && state.curves.has(run.path)).map((run) => {
    const { rows } = state.curves.get(run.path);
    return {
      ...style(run.path), name: label(run), x: rows[axis], y: rows[key],
      going: isRunning(run), focused: run.path === state.focused,
      marks: key === "accuracy" ? state.curves.get(run.path).marks(axis) : [],
    };
  });
};

// Conditions of train.eval_conditions, a thin dotted line each, with the accuracies of the run.
const conditionSeries = () => {
  const axis = $("axis").value;
  return state.runs.filter((run) => state.chosen.has(run.path) && state.curves.has(run.path)).flatMap((run) => {
    const curves = state.curves.get(run.path);
    return curves.conditions().map((condition) => {
      const marks = curves.marks(axis, condition);
      return {
        ...style(run.path), dash: [2, 3], name: `${label(run)}: ${condition}`, x: marks.map((m) => m.x),
        y: marks.map((m) => m.y), going: false, focused: run.path === state.focused, marks,
      };
    });
  });
};

const drawCurves = () => {
  const smooth = Number($("smooth").value);
  const xName = { step: "step", tokens: "tokens", seconds: "seconds" }[$("axis").value];
  $("smooth-value").textContent = smooth.toFixed(2);
  plots.loss.set(series("loss"), { log: $("log").checked, smooth, xName });
  plots.accuracy.set([...series("accuracy"), ...conditionSeries()], { log: false, smooth, xName });
};

// --- the list ---------------------------------------------------------------------------------------

const element = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

const cards = new Map();  // path -> the parts of its card

const makeCard = (run) => {
  const card = { item: element("li", "run") };
  card.check = element("input");
  card.check.type = "checkbox";
  card.check.setAttribute("aria-label", `Draw ${label(run)}`);
  card.name = element("button", "name");
  card.name.type = "button";
  card.swatch = element("span", "swatch");
  card.name.append(card.swatch, document.createTextNode(label(run)));
  card.name.title = label(run);
  card.badge = element("span", "badge");
  card.encoding = element("span", "encoding");
  card.left = element("span");
  const about = element("div", "line");
  about.append(card.encoding, card.left);
  card.bar = element("i");
  const track = element("div", "track");
  track.append(card.bar);
  card.figures = element("div", "line figures");
  card.item.append(card.check, card.name, card.badge, about, track, card.figures);
  card.check.addEventListener("click", (event) => event.stopPropagation());
  card.check.addEventListener("change", () => choose(run.path, card.check.checked));
  card.item.addEventListener("click", () => focus(run.path));
  return card;
};

const fillCard = (card, run) => {
  const kind = stateOf(run);
  card.item.className = `run ${kind}${run.path === state.focused ? " focused" : ""}`;
  card.check.checked = state.chosen.has(run.path);
  card.swatch.style.background = card.check.checked ? style(run.path).color : "transparent";
  card.badge.className = `badge ${kind}`;
  card.badge.textContent = kind;
  card.badge.title = run.error || run.status.message;
  card.encoding.textContent = run.error || `${run.encoding} · ${run.task} · seed ${run.seed ?? "?"}`;
  card.encoding.title = card.encoding.textContent;
  if (run.error) return;
  const p = run.progress;
  card.left.textContent = p.seconds_left === null ? "" : `${duration(p.seconds_left)} left`;
  card.bar.style.width = p.total ? `${Math.min(100, 100 * p.step / p.total)}%` : "0";
  card.figures.textContent = [
    `${p.step}${p.total ? `/${p.total}` : ""}`,
    p.loss === null ? "" : `loss ${number(p.loss)}`,
    p.accuracy === null ? "" : `acc ${number(100 * p.accuracy)} %`,
    p.tokens_per_s === null ? "" : `${count(p.tokens_per_s)} tok/s`,
  ].filter(Boolean).join(" · ");
};

const matches = (run) => {
  const text = `${run.path} ${run.encoding} ${run.task} seed ${run.seed} ${stateOf(run)}`.toLowerCase();
  return $("filter").value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
};

const renderList = () => {
  const shown = state.runs.filter(matches)
    .sort((a, b) => isRunning(b) - isRunning(a) || (b.updated ?? 0) - (a.updated ?? 0) || (a.path < b.path ? -1 : 1));
  for (const run of shown) {
    if (!cards.has(run.path)) cards.set(run.path, makeCard(run));
    fillCard(cards.get(run.path), run);
  }
  const items = shown.map((run) => cards.get(run.path).item);
  // Only where the order changed: putting them back would take the focus of the keyboard away.
  if (items.length !== $("runs").children.length || items.some((item, i) => $("runs").children[i] !== item)) {
    const active = document.activeElement;
    $("runs").replaceChildren(...items);
    if (items.some((item) => item.contains(active))) active.focus();
  }
  $("empty").hidden = state.runs.length > 0;
};

const choose = (path, on) => {
  state.touched = true;
  if (on) state.chosen.add(path); else state.chosen.delete(path);
  saveState();
  refreshCurves();
};

// --- one run ----------------------------------------------------------------------------------------

const factsOf = (run) => [
  ["state", stateOf(run) + (run.status.message ? `: ${run.status.message}` : "")],
  ["encoding", run.encoding], ["task", run.task], ["seed", run.seed],
  ["step", `${run.progress.step} of ${run.progress.total ?? "?"}`],
  ["left", duration(run.progress.seconds_left)],
  ["loss", number(run.progress.loss)],
  ["accuracy", run.progress.accuracy === null ? "–" : `${number(100 * run.progress.accuracy)} %`],
  ["speed", run.progress.tokens_per_s === null ? "–" : `${count(run.progress.tokens_per_s)} tokens/s`],
].filter(([, value]) => value !== "" && value !== null);

const titleOf = (row) => [
  `positions ${row.from} to ${row.to}`, `95 % over rows: ${number(row.low)} to ${number(row.high)}`,
  `last eighth: ${number(row.last_eighth?.value)}`, `all positions: ${number(row.all?.value)}`,
].join("; ");

const resultsTable = (results) => {
  const lengths = [...new Set(results.rows.map((r) => r.length))].sort((a, b) => a - b);
  const lines = [...new Set(results.rows.map((r) => `${r.axis}${r.schedule ? ` (${r.schedule})` : ""}`))];
  const table = element("table");
  const head = element("tr");
  head.append(element("th", "", `${results.metric} by axis`), ...lengths.map((l) => element("th", "", `T ${l}`)));
  table.append(head);
  const share = results.metric !== "bits_per_byte";
  for (const line of lines) {
    const row = element("tr");
    row.append(element("td", "", line));
    for (const length of lengths) {
      const found = results.rows.find((r) => r.length === length && `${r.axis}${r.schedule ? ` (${r.schedule})` : ""}` === line);
      const cell = element("td", "", !found ? "" : found.value === undefined || found.value === null ? "–"
        : share ? `${number(100 * found.value)} %` : number(found.value));
      if (found?.low !== undefined && found.low !== null) cell.title = titleOf(found);
      row.append(cell);
    }
    table.append(row);
  }
  const note = element("p", "", `Longer rows are scored on the positions beyond the trained length, ${results.train_length}.`);
  const part = element("div");
  part.append(table, note);
  return part;
};

const drawPositions = () => {
  const { results } = state.shown;
  const series = results ? positionSeries(results, theme()) : [];
  $("position-figure").hidden = !series.length;
  if (!series.length) return;
  const share = results.metric !== "bits_per_byte";
  Object.assign(plots.position.options, { percent: share, range: share ? [0, 1] : null });
  plots.position.set(series, positionView(results));
  $("position-names").replaceChildren(...series.filter((s) => !s.dash.length).map((s) => {
    const name = element("b", "", ` ${s.name} `);
    name.style.color = s.color;
    return name;
  }));
};

const renderDetails = async () => {
  const run = state.runs.find((r) => r.path === state.focused);
  $("details").hidden = !run || Boolean(run.error);
  if ($("details").hidden) return;
  $("detail-name").textContent = label(run);
  $("facts").replaceChildren(...factsOf(run).map(([name, value]) => {
    const fact = element("div");
    fact.append(element("span", "", name), document.createTextNode(value));
    return fact;
  }));
  const tag = `${run.path}|${run.evaluated}|${run.status.state}`;
  if (state.shown.tag === tag) return;
  const moved = state.shown.path !== run.path;
  const shown = { tag, path: run.path };
  state.shown = shown;
  if (moved) attention.open(run);
  try {
    const config = await ask(`${run.url}config`);
    const results = run.evaluated ? await ask(`${run.url}results`) : null;
    if (state.shown !== shown) return;  // another run was chosen meanwhile
    $("config").textContent = config.text;
    shown.results = results;
    $("results").replaceChildren(results ? resultsTable(results)
      : element("p", "", "Not evaluated yet: posenc train does so at its end."));
    drawPositions();
  } catch (error) {
    if (state.shown !== shown) return;
    shown.tag = null;  // try again
    $("results").replaceChildren(element("p", "error", error.message));
  }
};

const focus = (path) => {
  state.focused = path;
  if (!state.chosen.has(path)) choose(path, true);
  saveState();
  render();
};

// --- keeping up -------------------------------------------------------------------------------------

const saveState = () => {
  const words = new URLSearchParams();
  if (state.touched) words.set("runs", [...state.chosen].join("|"));
  if (state.focused !== null) words.set("run", state.focused);
  history.replaceState(null, "", `#${words}`);
};
const loadState = () => {
  const words = new URLSearchParams(location.hash.slice(1));
  if (words.has("runs")) {
    state.touched = true;
    state.chosen = new Set(words.get("runs").split("|").filter((p) => p !== ""));
  }
  if (words.has("run")) state.focused = words.get("run");
};

const chooseByItself = () => {
  if (state.touched) return;
  const going = state.runs.filter(isRunning).map((run) => run.path);
  const latest = [...state.runs].filter((run) => !run.error).sort((a, b) => b.updated - a.updated).map((run) => run.path);
  state.chosen = new Set((going.length ? going : latest).slice(0, MOST_AT_FIRST));
  if (state.focused === null && state.chosen.size) [state.focused] = state.chosen;
};

const refreshCurves = async () => {
  const wanted = state.runs.filter((run) => state.chosen.has(run.path) && !run.error);
  await Promise.all(wanted.map(async (run) => {
    if (!state.curves.has(run.path)) state.curves.set(run.path, new Curves());
    const curves = state.curves.get(run.path);
    if (curves.busy || curves.from === run.metrics_bytes) return;
    curves.busy = true;
    try { await curves.update(run.url); } finally { curves.busy = false; }
  }));
  render();
};

const render = () => {
  renderList();
  drawCurves();
  renderDetails();
};

const tick = async () => {
  try {
    if (!document.hidden) {
      const list = await ask("/api/runs");
      state.runs = list.runs;
      $("folder").textContent = list.folder;
      chooseByItself();
      await refreshCurves();
      const going = state.runs.filter(isRunning).length;
      $("connection").className = "";
      $("connection").textContent = `${going} running of ${state.runs.length}`;
      document.title = going ? `(${going}) posenc: live runs` : "posenc: live runs";
    }
  } catch (error) {
    $("connection").className = "lost";
    $("connection").textContent = error.message.startsWith("[") ? error.message : "the server does not answer";
  }
  setTimeout(tick, 1000);
};

for (const id of ["log", "smooth", "axis"]) $(id).addEventListener("input", drawCurves);
$("filter").addEventListener("input", renderList);
$("select-none").addEventListener("click", () => { state.touched = true; state.chosen.clear(); saveState(); render(); });
$("select-running").addEventListener("click", () => {
  state.touched = true;
  state.chosen = new Set(state.runs.filter(isRunning).map((run) => run.path));
  saveState();
  refreshCurves();
});
$("theme").value = localStorage.getItem("posenc-theme") ?? "auto";
$("theme").addEventListener("change", applyTheme);
dark.addEventListener("change", applyTheme);
loadState();
applyTheme();
tick();
