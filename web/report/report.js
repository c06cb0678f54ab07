// The script of a report page. Everything it shows is in the page; it asks for nothing else.
import { AttentionView } from '../shared/attention.js';
import { colorTables } from '../shared/map_data.js';
import { addThemeChoice, makeElement } from '../shared/page_parts.js';
import { setUpCharts } from './charts.js';
import { makeSortable } from './sorting.js';

/**
 * @param {string} id
 * @returns {any}
 */
function readData(id) {
  return JSON.parse(document.getElementById(id)?.textContent ?? 'null');
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
    const button = makeElement('button', 'copy', code.parentElement, 'copy');
    button.type = 'button';
    button.addEventListener('click', () => void copyText(code, button));
  }
}

function showAttention() {
  const root = document.getElementById('attention-view');
  const { records } = readData('attention-data');
  if (!root || records.length === 0) return null;
  const colors = readData('color-data');
  const view = new AttentionView(root, {
    sequential: colorTables(colors.sequential),
    diverging: colorTables(colors.diverging),
  });
  return { maps: view.maps, ready: view.setRecords(records) };
}

function startReport() {
  const header = document.querySelector('header');
  if (header) addThemeChoice(header);
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
