// The page as a whole: what is chosen, the link that says so, and the figure that follows.
import { onThemeChange, pageIsDark, setTheme } from '../shared/page_parts.js';
import { plotCommand } from './command';
import { button, byId, make } from './dom';
import { Engine } from './engine';
import { FigureView } from './figure_view';
import { showFormulas } from './formula_view';
import { helpTable, listenToKeys, type Shortcut } from './keyboard';
import { type Catalog, failed, type Fields, type Figure, type Json, type PlotKind, type Term } from './messages';
import { SpecEditor } from './spec_editor';
import { siteLinks } from './page_links';
import { decodeState, encodeState, sameValue, type State } from './state';
import { chapterOfLink, linkOfChapter, TourPanel } from './tour';
import { CHAPTERS } from './tour_chapters';
import { Player, requestField, showViewControls } from './view_controls';
import { viewGroups, viewWords } from './views';

const toggleTheme = (): void => setTheme(pageIsDark() ? 'light' : 'dark');

export class App {
  private readonly figure: FigureView;
  private readonly editor: SpecEditor;
  private readonly player: Player;
  private readonly order: string[];
  private readonly remembered = new Map<string, Fields>();
  private readonly tour: TourPanel;
  private state: State;
  private chapter = 0; // of the guided tour; 0: none
  private outside = ''; // the link of what was shown before the tour
  private drawing = false;
  private stale = false;
  private serial = 0;

  constructor(
    private readonly engine: Engine,
    private readonly catalog: Catalog,
  ) {
    this.order = viewGroups(catalog.plots).flatMap((group) => group.kinds);
    const palette = (): string[] => catalog.palette[pageIsDark() ? 'dark' : 'light'];
    this.figure = new FigureView(byId('panels'), engine, palette);
    this.player = new Player(async (position, settled) => {
      this.setValue('positions', [position], settled);
      await this.draw();
    });
    this.editor = new SpecEditor({
      home: byId('specs'),
      engine,
      catalog,
      palette,
      headDim: () => Number(this.values()['head_dim'] ?? 64),
      onChange: (specs, settled) => this.setSpecs(specs, settled),
      onActive: (terms) => this.showTerms(terms),
    });
    this.tour = new TourPanel((chapter) => void this.goToChapter(chapter));
    this.state = this.readLink();
    this.buildNavigation();
    this.listen();
  }

  async start(): Promise<void> {
    byId('version').textContent = `posenc ${this.catalog.version}`;
    byId('site-links').append(...siteLinks());
    await this.apply();
    document.documentElement.dataset['ready'] = 'true';
  }

  // --- state ---------------------------------------------------------------------------------------

  private kind(): PlotKind {
    const kind = this.catalog.plots.find((plot) => plot.name === this.state.view);
    if (kind === undefined) throw new Error(`no view ${this.state.view}`);
    return kind;
  }
  private defaults(): Fields {
    return { ...this.kind().defaults, ...(viewWords(this.state.view).start ?? {}) };
  }
  private values(): Fields {
    return { ...this.defaults(), ...this.state.values };
  }
  private specs(): string[] {
    return this.state.specs ?? (this.defaults()['encodings'] as string[]);
  }
  private request(): Fields {
    const kind = this.kind();
    const chosen = { ...(viewWords(kind.name).start ?? {}), ...this.state.values };
    const read = Object.entries(chosen).filter(([name]) => kind.fields.includes(name));
    return { ...Object.fromEntries(read), encodings: this.specs() };
  }

  private stateOf(link: string): State {
    const lookup = (name: string): ReturnType<typeof requestField> => requestField(this.catalog, name);
    return decodeState(link, lookup, this.order);
  }
  /** What the address asks for; a chapter without a view is shown as it begins. */
  private readLink(): State {
    const { hash } = location;
    this.chapter = chapterOfLink(hash);
    if (this.chapter === 0) this.outside = hash;
    const begins = this.chapter !== 0 && !new URLSearchParams(hash.slice(1)).has('view');
    return this.stateOf(begins ? linkOfChapter(this.chapter) : hash);
  }
  private link(): string {
    const link = encodeState(this.state);
    if (this.chapter === 0) return `#${link}`;
    const begins = link === encodeState(this.stateOf(linkOfChapter(this.chapter)));
    return `#tour=${this.chapter}${begins ? '' : `&${link}`}`;
  }
  private writeLink(): void {
    const hash = this.link();
    if (hash !== location.hash) history.pushState(null, '', hash);
    if (this.chapter !== 0) return;
    this.outside = hash;
    this.remembered.set(this.state.view, this.state.values);
  }
  private setValue(name: string, value: Json, settled: boolean): void {
    const values = { ...this.state.values, [name]: value };
    if (sameValue(value, this.defaults()[name])) delete values[name];
    this.state = { ...this.state, values };
    if (settled) this.writeLink();
  }
  private setSpecs(specs: string[], settled: boolean): void {
    const own = this.defaults()['encodings'];
    this.state = { ...this.state, specs: sameValue(specs, own) && this.state.specs === null ? null : specs };
    if (settled) this.writeLink();
    void this.draw();
  }
  private async goTo(view: string): Promise<void> {
    this.player.stop();
    this.state = { view, specs: this.state.specs, values: this.remembered.get(view) ?? {} };
    this.writeLink();
    await this.apply();
  }
  /** Shows a chapter of the tour; 0 ends it, with everything as it was before. */
  private async goToChapter(chapter: number): Promise<void> {
    this.player.stop();
    this.chapter = chapter;
    this.state = this.stateOf(chapter === 0 ? this.outside : linkOfChapter(chapter));
    this.writeLink();
    await this.apply();
  }
  private startTour(): void {
    void this.goToChapter(this.chapter === 0 ? 1 : this.chapter);
    this.tour.focus();
  }
  private endTour(): void {
    if (this.chapter === 0) return;
    void this.goToChapter(0);
    byId('start-tour').focus();
  }
  /** The next view, or the next chapter of the tour, whose end is behind the last one. */
  private step(by: number): void {
    if (this.chapter === 0) return this.neighbour(by);
    const chapter = this.chapter + by;
    if (chapter > CHAPTERS.length) this.endTour();
    else void this.goToChapter(Math.max(1, chapter));
  }
  private neighbour(step: number): void {
    const at = this.order.indexOf(this.state.view) + step + this.order.length;
    void this.goTo(this.order[at % this.order.length] ?? this.state.view);
  }
  private async reset(): Promise<void> {
    this.state =
      this.chapter === 0 ? { view: this.state.view, specs: null, values: {} } : this.stateOf(linkOfChapter(this.chapter));
    this.writeLink();
    await this.apply();
  }

  /** Redraws everything from the state: after a link, a tab or a reset. */
  private async apply(): Promise<void> {
    const kind = this.kind();
    for (const link of document.querySelectorAll<HTMLAnchorElement>('#views a')) {
      if (link.dataset['view'] === kind.name) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    this.tour.show(this.chapter);
    document.title = `${viewWords(kind.name).tab} · posenc explorer`;
    byId('view-doc').textContent = kind.doc;
    byId('player').hidden = kind.name !== 'clocks';
    this.showControls();
    await this.editor.set(this.specs());
    await this.draw();
  }
  private showControls(): void {
    showViewControls({
      home: byId('fields'),
      catalog: this.catalog,
      kind: this.kind(),
      values: this.values(),
      onInput: (name, value, settled) => {
        this.setValue(name, value, settled);
        void this.draw();
      },
    });
    this.player.show(this.values()['positions']);
  }
  private showTerms(terms: Term[]): void {
    showFormulas(byId('formulas'), terms, this.catalog);
  }

  // --- figure --------------------------------------------------------------------------------------

  /** Draws the state; while one figure is under way, only the newest of later wishes is kept. */
  private async draw(): Promise<void> {
    this.stale = true;
    if (this.drawing) return;
    this.drawing = true;
    try {
      while (this.stale) {
        this.stale = false;
        await this.drawOnce();
      }
    } finally {
      this.drawing = false;
    }
  }
  private async drawOnce(): Promise<void> {
    const start = performance.now();
    const kind = this.state.view;
    let request: Fields = { kind, ...this.request() };
    let answer = await this.engine.plot(request);
    let note = '';
    if (failed(answer) && this.specs().length > 1) {
      // A view that takes one spec, or not all of these, shows the first that it can.
      for (const spec of this.specs()) {
        const alone = await this.engine.plot({ ...request, encodings: [spec] });
        if (failed(alone)) continue;
        note = `Shown alone: ${spec}. ${answer.error}`;
        request = { ...request, encodings: [spec] };
        answer = alone;
        break;
      }
    }
    this.showProblem(failed(answer) ? answer.error : '', note);
    if (failed(answer)) return;
    await this.showFigure(answer, request, kind, start);
  }
  private async showFigure(figure: Figure, request: Fields, kind: string, start: number): Promise<void> {
    const received = performance.now();
    byId('figure-title').textContent = figure.title;
    byId('caption').textContent = figure.caption;
    await this.figure.show(figure, request, kind);
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
    const { kind: _, ...fields } = request;
    byId('command').textContent = plotCommand(kind, fields);
    const status = byId('status');
    status.textContent = `computed in ${figure.milliseconds.toFixed(0)} ms, drawn in ${(performance.now() - received).toFixed(0)} ms`;
    status.dataset['total'] = (performance.now() - start).toFixed(1);
    status.dataset['serial'] = String(++this.serial);
  }
  private showProblem(problem: string, note: string): void {
    const line = byId('problem');
    line.textContent = problem;
    byId('figure').classList.toggle('stale', problem !== '');
    if (problem !== '' && this.state.specs !== null) {
      line.append(' ', button('Use this view’s own example', 'forget the specs', () => void this.reset(), 'button example'));
    }
    byId('note').textContent = note;
    byId('status').dataset['problem'] = problem;
  }

  // --- around it -----------------------------------------------------------------------------------

  private buildNavigation(): void {
    for (const group of viewGroups(this.catalog.plots)) {
      const list = make('ul');
      for (const kind of group.kinds) {
        const doc = this.catalog.plots.find((plot) => plot.name === kind)?.doc ?? '';
        const link = make('a', { href: `#view=${kind}`, 'data-view': kind, title: doc }, viewWords(kind).tab);
        link.addEventListener('click', (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          void this.goTo(kind);
        });
        list.append(make('li', {}, link));
      }
      byId('views').append(make('div', { class: 'group' }, make('h2', {}, group.title), list));
    }
  }
  private listen(): void {
    byId('player').append(this.player.element);
    window.addEventListener('popstate', () => {
      this.player.stop();
      this.state = this.readLink();
      void this.apply();
    });
    onThemeChange(() => {
      this.figure.clear();
      void this.draw();
    });
    const shortcuts = this.shortcuts();
    byId('help-keys').append(helpTable(shortcuts));
    listenToKeys(shortcuts);
    const bind = (id: string, act: () => void): void => byId(id).addEventListener('click', act);
    bind('theme', toggleTheme);
    bind('share', () => void this.copy(location.href, 'Link copied'));
    bind('copy-command', () => void this.copy(byId('command').textContent ?? '', 'Command copied'));
    bind('reset', () => void this.reset());
    bind('start-tour', () => (this.chapter === 0 ? this.startTour() : this.endTour()));
    bind('tour-back', () => this.step(-1));
    bind('tour-next', () => this.step(1));
    bind('tour-close', () => this.endTour());
    byId('skip').addEventListener('click', (event) => {
      event.preventDefault(); // the fragment says what is shown
      byId('figure').focus();
    });
    bind('help', () => byId<HTMLDialogElement>('help-dialog').showModal());
    bind('help-close', () => byId<HTMLDialogElement>('help-dialog').close());
  }
  private shortcuts(): Shortcut[] {
    const help = byId<HTMLDialogElement>('help-dialog');
    return [
      { keys: ['g'], doc: 'guided tour', act: () => this.startTour() },
      { keys: [']', 'n'], doc: 'next view, or chapter of the tour', act: () => this.step(1) },
      { keys: ['[', 'p'], doc: 'previous view, or chapter of the tour', act: () => this.step(-1) },
      { keys: ['Escape'], doc: 'end the tour', act: () => this.endTour() },
      { keys: ['e'], doc: 'edit the spec', act: () => this.editor.focusText() },
      { keys: [' '], doc: 'clocks: play or pause', act: () => this.state.view === 'clocks' && this.player.toggle() },
      { keys: ['d'], doc: 'download the numbers (CSV)', act: () => void this.figure.saveAll('csv') },
      { keys: ['i'], doc: 'download the pictures (PNG)', act: () => void this.figure.saveAll('png') },
      { keys: ['c'], doc: 'copy the link', act: () => void this.copy(location.href, 'Link copied') },
      { keys: ['t'], doc: 'light or dark', act: toggleTheme },
      { keys: ['r'], doc: 'reset the view', act: () => void this.reset() },
      { keys: ['?'], doc: 'this list', act: () => (help.open ? help.close() : help.showModal()) },
    ];
  }
  private async copy(text: string, done: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      byId('status').textContent = done;
    } catch {
      byId('status').textContent = `The browser did not allow it; copy by hand: ${text}`;
    }
  }
}
