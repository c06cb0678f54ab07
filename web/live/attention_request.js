// The form that asks for the attention of one run on one sample, and the list of what was recorded.
import { ask, askWithStatus } from './runs.js';

/** @typedef {import('../shared/attention.js').AttentionView} AttentionView */
/** @typedef {import('./runs.js').Run} Run */

export class AttentionRequest {
  /**
   * @param {HTMLFormElement} form with the fields sample, length and records, and an output
   * @param {AttentionView} view
   */
  constructor(form, view) {
    const field = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.elements.namedItem(name));
    this.sample = field('sample');
    this.length = field('length');
    this.records = /** @type {HTMLSelectElement} */ (form.elements.namedItem('records'));
    this.state = /** @type {HTMLOutputElement} */ (form.elements.namedItem('state'));
    this.view = view;
    this.url = '';
    this.turn = 0; // an answer to an older request is dropped
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.compute();
    });
    this.records.addEventListener('change', () => this.records.value && void this.load(this.records.value));
  }

  /** @param {Run} run */
  open(run) {
    ++this.turn;
    this.url = `${run.url}attention`;
    this.length.value = String(run.train_length || 32);
    this.say('');
    void this.view.setRecords([]);
    void this.list();
  }

  /** @param {unknown} what an error, or a text */
  say(what) {
    this.state.textContent = what instanceof Error ? what.message : String(what);
    this.state.className = what instanceof Error ? 'error' : '';
  }

  async list(chosen = '') {
    const { records } = await ask(this.url).catch(() => ({ records: [] }));
    const options = records.map(
      (/** @type {any} */ r) => new Option(`${r.axis} T ${r.length} sample ${r.sample}${r.best ? ' best' : ''}`, r.url),
    );
    this.records.replaceChildren(new Option(options.length ? 'choose …' : 'none yet', ''), ...options);
    this.records.value = chosen;
  }

  /** Asks until the server has it: 202 while it is computed, 503 while another one is. */
  async compute() {
    const turn = ++this.turn;
    const since = Date.now();
    while (turn === this.turn) {
      try {
        const { status, body } = await askWithStatus(`${this.url}?sample=${this.sample.value}&length=${this.length.value}`);
        if (turn !== this.turn) return;
        if (status === 200) {
          await this.load(body.record.url);
          return void this.list(body.record.url);
        }
        this.say(`computing, ${Math.round((Date.now() - since) / 1000)} s`);
      } catch (error) {
        if (turn !== this.turn) return;
        if (/** @type {any} */ (error).status !== 503) return this.say(error);
        this.say('waiting for another sample');
      }
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }

  /** @param {string} url of a record */
  async load(url) {
    const turn = ++this.turn;
    try {
      const record = await ask(url);
      if (turn !== this.turn) return;
      this.say('');
      await this.view.setRecords([record]);
    } catch (error) {
      if (turn === this.turn) this.say(error);
    }
  }
}
