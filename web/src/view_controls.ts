// The fields of a view: one control each, the rare ones folded; and the player of the clocks.
import { foldAdvanced, makeControl } from './controls';
import { make } from './dom';
import { type Field, readField } from './fields';
import type { Catalog, Fields, Json, PlotKind } from './messages';
import { viewWords } from './views';

export interface ViewControlOptions {
  home: HTMLElement;
  catalog: Catalog;
  kind: PlotKind;
  values: Fields; // all of them, defaults included
  onInput: (name: string, value: Json, settled: boolean) => void;
}

export function requestField(catalog: Catalog, name: string): Field | undefined {
  const doc = catalog.request_fields.find((field) => field.name === name);
  return doc && readField(doc, catalog);
}

export function showViewControls(options: ViewControlOptions): void {
  const { home, catalog, kind } = options;
  const folded = new Set(viewWords(kind.name).folded ?? []);
  const fields = kind.fields.flatMap((name) => (name === 'encodings' ? [] : (requestField(catalog, name) ?? [])));
  const arranged = fields.map((field) => ({ ...field, advanced: field.advanced || folded.has(field.name) }));
  const control = (field: Field): HTMLElement[] => [
    makeControl({
      field,
      id: `view-${field.name}`,
      value: options.values[field.name] ?? null,
      highest: field.name === 'length' && kind.max_length > 0 ? kind.max_length : undefined,
      onInput: (value, settled) => options.onInput(field.name, value, settled),
    }),
  ];
  home.replaceChildren(...foldAdvanced(arranged, 'more settings', control));
}

const FRAME_MILLISECONDS = 90;

/** A position that runs: the hands of the clocks follow it. */
export class Player {
  readonly element = make('div', { class: 'player' });
  private readonly play = make('button', { type: 'button', class: 'button play', id: 'play' }, '▶ Play');
  private readonly slider = make('input', { type: 'range', min: 0, max: 512, step: 1, id: 'position-slider', 'aria-label': 'position' });
  private readonly readout = make('output', { for: 'position-slider', id: 'position' });
  private timer = 0;
  private busy = false;

  constructor(private readonly onPosition: (position: number, settled: boolean) => Promise<void>) {
    this.play.title = 'let the position run (space)';
    this.play.addEventListener('click', () => this.toggle());
    this.slider.addEventListener('input', () => void this.tell(false));
    this.slider.addEventListener('change', () => void this.tell(true));
    this.element.append(this.play, make('label', { for: 'position-slider' }, 'position'), this.slider, this.readout);
  }

  show(positions: Json | undefined): void {
    const position = Array.isArray(positions) && typeof positions[0] === 'number' ? positions[0] : 0;
    this.slider.value = String(position);
    this.readout.value = String(position);
  }
  toggle(): void {
    if (this.timer !== 0) return this.stop();
    this.play.textContent = '❚❚ Pause';
    this.timer = window.setInterval(() => void this.step(), FRAME_MILLISECONDS);
  }
  stop(): void {
    clearInterval(this.timer);
    if (this.timer !== 0) void this.tell(true);
    this.timer = 0;
    this.play.textContent = '▶ Play';
  }
  private async step(): Promise<void> {
    if (this.busy) return;
    this.slider.value = String((Number(this.slider.value) + 1) % (Number(this.slider.max) + 1));
    await this.tell(false);
  }
  private async tell(settled: boolean): Promise<void> {
    this.busy = true;
    this.readout.value = this.slider.value;
    await this.onPosition(Number(this.slider.value), settled);
    this.busy = false;
  }
}
