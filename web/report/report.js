// The script of a report page. Everything it shows is in the page; it asks for nothing else.
import { makeElement } from '../shared/page_parts.js';
import { setUpCharts } from './charts.js';
import { makeSortable } from './sorting.js';
import { AttentionView } from './attention.js';

/** @typedef {import('../shared/heatmap.js').ColorTables} ColorTables */

/**
 * @param {string} id
 * @returns {any}
 */
function readData(id) {
  return JSON.parse(document.getElementById(id)?.textContent ?? 'null');
}

/** @param {string} text */
function bytesOfBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/**
 * @param {{light: string, dark: string}} entry
 * @returns {ColorTables}
 */
function colorTables(entry) {
  return { light: bytesOfBase64(entry.light), dark: bytesOfBase64(entry.dark) };
}

/** Light, dark, or as the system says. */
function addThemeChoice() {
  const header = document.querySelector('header');
  if (!header) return;
  const label = makeElement('label', 'theme', header);
  label.append('Look ');
  const select = makeElement('select', '', label);
  select.id = 'theme';
  for (const name of ['auto', 'light', 'dark']) {
    const option = makeElement('option', '', select);
    option.value = name;
    option.textContent = name;
  }
  select.addEventListener('change', () => {
    if (select.value === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = select.value;
  });
}

/**
 * Where the clipboard is closed to the page, the text is selected instead.
 * @param {Element} code
 * @param {HTMLButtonElement} button
 */
async function copyText(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent ?? '');
    button.textContent = 'copied';
  } catch {
    getSelection()?.selectAllChildren(code);
    button.textContent = 'selected';
  }
  setTimeout(() => (button.textContent = 'copy'), 1500);
}

function addCopyButtons() {
  for (const code of document.querySelectorAll('pre.command > code, pre.config > code')) {
    const button = makeElement('button', 'copy');
    button.type = 'button';
    button.textContent = 'copy';
    button.addEventListener('click', () => void copyText(code, button));
    code.parentElement?.append(button);
  }
}

function showAttention() {
  const root = document.getElementById('attention-view');
  const { records } = readData('attention-data');
  if (!root || records.length === 0) return null;
  const colors = readData('color-data');
  return new AttentionView(root, records, {
    sequential: colorTables(colors.sequential),
    diverging: colorTables(colors.diverging),
  });
}

function startReport() {
  addThemeChoice();
  addCopyButtons();
  for (const table of document.querySelectorAll('table.sortable')) {
    makeSortable(/** @type {HTMLTableElement} */ (table));
  }
  setUpCharts();
  const attention = showAttention();
  // For tests: when all is painted, and how long the maps took.
  Object.assign(window, {
    posencReport: {
      ready: attention?.ready ?? Promise.resolve(),
      maps: () => Object.fromEntries(attention?.maps ?? []),
      paintMilliseconds: () => [...(attention?.maps.values() ?? [])].map((m) => m.paintMilliseconds),
    },
  });
}

startReport();
