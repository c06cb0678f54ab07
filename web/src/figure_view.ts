// A figure on the page: a frame per panel, with its title, its downloads and a table of its numbers.
import { fileName, saveFile } from '../shared/page_parts.js';
import { button, make } from './dom';
import { canvasBlob, composePicture, readCsv } from './download';
import type { Engine } from './engine';
import type { Figure, Panel } from './messages';
import type { PanelView } from './panel';
import { ClocksPanel } from './panel_clocks';
import { LinesPanel, risingCurves } from './panel_lines';
import { type ColorTables, MapPanel } from './panel_map';
import { PointsPanel } from './panel_points';

const TABLE_ROWS = 200;

interface Frame {
  root: HTMLElement;
  title: HTMLElement;
  body: HTMLElement;
  table: HTMLElement;
  panel: Panel;
  view: PanelView;
}

export class FigureView {
  private frames: Frame[] = [];
  private request: object = {};
  private kind = '';

  constructor(
    private readonly home: HTMLElement,
    private readonly engine: Engine,
    private readonly palette: () => string[],
  ) {}

  /** Shows a figure; panels of the same kind in the same place are kept, and with them zoom and pins. */
  async show(figure: Figure, request: object, kind: string): Promise<void> {
    const tables = await Promise.all(figure.panels.map((panel) => this.tablesOf(panel)));
    this.request = request;
    if (kind !== this.kind || figure.panels.length !== this.frames.length) this.clear();
    this.kind = kind;
    this.home.style.setProperty('--columns', String(figure.columns));
    figure.panels.forEach((panel, i) => this.showPanel(panel, i, tables[i] ?? null, figure.panel_height));
    for (const frame of this.frames) if (!frame.table.hidden) void this.fillTable(frame);
  }
  clear(): void {
    for (const frame of this.frames) frame.view.destroy();
    this.frames = [];
    this.home.replaceChildren();
  }

  private async tablesOf(panel: Panel): Promise<ColorTables | null> {
    return panel.map === null ? null : this.engine.colors(panel.map.map);
  }

  private showPanel(panel: Panel, index: number, tables: ColorTables | null, height: number): void {
    const frame = this.frames[index];
    if (frame === undefined) {
      this.frames.push(this.makeFrame(panel, index, tables, height));
      return;
    }
    frame.panel = panel;
    frame.title.textContent = panel.title;
    const { view } = frame;
    if (view instanceof MapPanel && tables !== null) view.update(panel, tables, height);
    else if (view instanceof ClocksPanel && panel.clocks.length > 0) view.update(panel, this.hand());
    else {
      view.destroy();
      frame.view = this.makeView(panel, tables, height);
      frame.body.replaceChildren(frame.view.element);
    }
  }
  private makeView(panel: Panel, tables: ColorTables | null, height: number): PanelView {
    if (panel.clocks.length > 0) return new ClocksPanel(panel, this.hand());
    if (tables !== null) return new MapPanel(panel, tables, height);
    const tall = Math.max(280, Math.min(460, height));
    if (risingCurves(panel) && !panel.square) return new LinesPanel(panel, this.palette(), tall);
    return new PointsPanel(panel, this.palette(), tall);
  }
  private hand(): string {
    return this.palette()[0] ?? '#06c';
  }

  private makeFrame(panel: Panel, index: number, tables: ColorTables | null, height: number): Frame {
    const root = make('section', { class: 'panel', 'data-panel': index, 'data-testid': `panel-${index}` });
    const title = make('h3', {}, panel.title);
    const body = make('div', { class: 'panel-body' });
    const table = make('div', { class: 'panel-table', hidden: true });
    const tools = make('div', { class: 'panel-tools' });
    root.append(make('header', {}, title, tools), body, table);
    this.home.append(root);
    const view = this.makeView(panel, tables, height);
    body.append(view.element);
    const frame: Frame = { root, title, body, table, panel, view };
    tools.append(
      button('Numbers', 'show the numbers of this panel as a table', () => {
        table.hidden = !table.hidden;
        if (!table.hidden) void this.fillTable(frame);
      }),
      button('CSV', 'download the numbers of this panel', () => void this.saveCsv(index)),
      button('PNG', 'download this panel as a picture', () => void this.savePicture(index)),
    );
    return frame;
  }

  async saveCsv(index: number): Promise<void> {
    const text = await this.engine.csv(this.request, index);
    saveFile(new Blob([text], { type: 'text/csv' }), `${this.nameOf(index)}.csv`);
  }
  async savePicture(index: number): Promise<void> {
    const frame = this.frames[index];
    if (frame === undefined) return;
    const picture = composePicture(frame.panel, frame.view.toCanvas(), this.palette());
    saveFile(await canvasBlob(picture), `${this.nameOf(index)}.png`);
  }
  /** All panels, one file each. */
  async saveAll(kind: 'csv' | 'png'): Promise<void> {
    for (const index of this.frames.keys()) {
      await (kind === 'csv' ? this.saveCsv(index) : this.savePicture(index));
    }
  }
  private nameOf(index: number): string {
    return fileName('posenc', this.kind, this.frames[index]?.panel.title ?? '');
  }

  private async fillTable(frame: Frame): Promise<void> {
    const text = await this.engine.csv(this.request, this.frames.indexOf(frame));
    const [head, ...rows] = readCsv(text, TABLE_ROWS + 1);
    const total = text.split('\n').length - 2;
    const kept = (head ?? []).map((_, c) => c).filter((c) => c > 1 && rows.some((row) => row[c] !== ''));
    const cells = (row: string[], tag: 'td' | 'th'): HTMLElement[] => kept.map((c) => make(tag, {}, row[c] ?? ''));
    const table = make('table', {}, make('thead', {}, make('tr', {}, ...cells(head ?? [], 'th'))));
    table.append(make('tbody', {}, ...rows.map((row) => make('tr', {}, ...cells(row, 'td')))));
    const more = total > rows.length ? `The first ${rows.length} of ${total} rows; the CSV has all.` : `${total} rows.`;
    frame.table.replaceChildren(make('p', { class: 'muted' }, more), make('div', { class: 'scroll', tabindex: 0 }, table));
  }
}
