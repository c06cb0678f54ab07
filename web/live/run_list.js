// The list of runs: a card each, with state, progress and figures.
import { makeElement } from '../shared/page_parts.js';
import { shortNumber } from '../shared/value_scale.js';
import { duration, isRunning, nameOf, percent, shortCount, stateOf } from './runs.js';

/** @typedef {import('./runs.js').Run} Run */
/** @typedef {{chosen: Set<string>, focused: string | null, colorOf: (path: string) => string}} Look */

export class RunList {
  /**
   * @param {HTMLElement} list
   * @param {{choose: (path: string, drawn: boolean) => void, focus: (path: string) => void}} actions
   */
  constructor(list, actions) {
    this.list = list;
    this.actions = actions;
    /** @type {Map<string, ReturnType<RunList['makeCard']>>} */
    this.cards = new Map();
  }

  /** @param {Run} run */
  makeCard(run) {
    const item = makeElement('li');
    const check = makeElement('input', '', item);
    check.type = 'checkbox';
    check.setAttribute('aria-label', `Draw ${nameOf(run)}`);
    const name = makeElement('button', 'name', item);
    name.type = 'button';
    name.title = nameOf(run);
    const swatch = makeElement('span', 'swatch', name);
    name.append(nameOf(run));
    const badge = makeElement('span', '', item);
    const about = makeElement('div', 'line', item);
    const encoding = makeElement('span', 'encoding', about);
    const left = makeElement('span', '', about);
    const bar = makeElement('i', '', makeElement('div', 'track', item));
    const figures = makeElement('div', 'line figures', item);
    check.addEventListener('click', (event) => event.stopPropagation());
    check.addEventListener('change', () => this.actions.choose(run.path, check.checked));
    item.addEventListener('click', () => this.actions.focus(run.path));
    return { item, check, swatch, badge, encoding, left, bar, figures };
  }
  /** @param {Run} run @param {Look} look */
  fillCard(run, look) {
    const card = this.cards.get(run.path) ?? this.makeCard(run);
    this.cards.set(run.path, card);
    const kind = stateOf(run);
    card.item.className = `run ${kind}${run.path === look.focused ? ' focused' : ''}`;
    card.check.checked = look.chosen.has(run.path);
    card.swatch.style.background = card.check.checked ? look.colorOf(run.path) : 'transparent';
    card.badge.className = `badge ${kind}`;
    card.badge.textContent = kind;
    card.badge.title = run.error ?? run.status.message;
    card.encoding.textContent = run.error ?? `${run.encoding} · ${run.task} · seed ${run.seed ?? '?'}`;
    card.encoding.title = card.encoding.textContent;
    if (run.error) return card.item;
    const { step, total, seconds_left, loss, accuracy, tokens_per_s } = run.progress;
    card.left.textContent = seconds_left === null ? '' : `${duration(seconds_left)} left`;
    card.bar.style.width = total ? `${Math.min(100, (100 * step) / total)}%` : '0';
    card.figures.textContent = [
      `${step}${total ? `/${total}` : ''}`,
      loss === null ? '' : `loss ${shortNumber(loss)}`,
      accuracy === null ? '' : `acc ${percent(accuracy)}`,
      tokens_per_s === null ? '' : `${shortCount(tokens_per_s)} tok/s`,
    ].filter(Boolean).join(' · ');
    return card.item;
  }
  /**
   * @param {Run[]} runs
   * @param {string} filter words that all have to be in what is known of a run
   * @param {Look} look
   */
  show(runs, filter, look) {
    const words = filter.toLowerCase().split(/\s+/);
    const items = runs
      .filter((run) => {
        const text = `${run.path} ${run.encoding} ${run.task} seed ${run.seed} ${stateOf(run)}`.toLowerCase();
        return words.every((word) => text.includes(word));
      })
      .sort((a, b) => (b.updated ?? 0) - (a.updated ?? 0) || (a.path < b.path ? -1 : 1))
      .sort((a, b) => Number(isRunning(b)) - Number(isRunning(a)))
      .map((run) => this.fillCard(run, look));
    const { list } = this;
    // Only where the order changed: putting them back would take the focus of the keyboard away.
    if (items.length !== list.children.length || items.some((item, i) => list.children[i] !== item)) {
      const active = document.activeElement;
      list.replaceChildren(...items);
      if (active instanceof HTMLElement && list.contains(active)) active.focus();
    }
  }
}
