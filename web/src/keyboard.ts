// Shortcuts, and the list of them.
import { make } from './dom';

export interface Shortcut {
  keys: string[];
  doc: string;
  act: () => void;
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['range', 'checkbox', 'button'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

export function listenToKeys(shortcuts: Shortcut[]): void {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target)) return;
    // An open dialog closes by itself.
    if (event.key === 'Escape' && document.querySelector('dialog[open]') !== null) return;
    // A button answers to the space bar by itself, and a map has keys of its own.
    const taken = event.target instanceof HTMLButtonElement || event.target instanceof HTMLCanvasElement;
    if (taken && (event.key === ' ' || event.key === 'Enter')) return;
    const shortcut = shortcuts.find((s) => s.keys.includes(event.key));
    if (shortcut === undefined) return;
    event.preventDefault();
    shortcut.act();
  });
}

const MAP_KEYS: [string, string][] = [
  ['wheel, + −', 'zoom a map'],
  ['drag, Shift + arrows', 'move its view'],
  ['arrows', 'move the crosshair'],
  ['click, Enter', 'pin a cell; Escape takes the last pin away'],
  ['double click, 0', 'show all of it'],
];

export function helpTable(shortcuts: Shortcut[]): HTMLElement {
  const row = (keys: string, doc: string): HTMLElement =>
    make('tr', {}, make('th', { scope: 'row' }, ...keys.split(' / ').flatMap((k, i) => (i > 0 ? [' ', make('kbd', {}, k)] : [make('kbd', {}, k)]))), make('td', {}, doc));
  const named = (key: string): string => (key === ' ' ? 'space' : key);
  const page = shortcuts.map((s) => row(s.keys.map(named).join(' / '), s.doc));
  const map = MAP_KEYS.map(([keys, doc]) => row(keys, doc));
  const head = (text: string): HTMLElement => make('tr', { class: 'head' }, make('th', { colspan: 2 }, text));
  return make('table', { class: 'keys' }, make('tbody', {}, head('Everywhere'), ...page, head('On a map'), ...map));
}
