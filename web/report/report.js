// The script of a report page. Everything it shows is in the page; it asks for nothing else.
import { AttentionView } from '../shared/attention.js';
import { colorTables } from '../shared/map_data.js';
import { addThemeChoice } from '../shared/page_parts.js';
import { setUpCharts } from './charts.js';
import { addCopyButton } from './copy_button.js';
import { makeSortable } from './sorting.js';
import { addTableForms } from './table_forms.js';

/**
 * @param {string} id
 * @returns {any}
 */
function readData(id) {
  return JSON.parse(document.getElementById(id)?.textContent ?? 'null');
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
  for (const code of document.querySelectorAll('pre.command > code, pre.config > code')) addCopyButton(code);
  const latex = readData('latex-data');
  for (const element of document.querySelectorAll('table.sortable')) {
    const table = /** @type {HTMLTableElement} */ (element);
    makeSortable(table);
    addTableForms(table, latex[table.id]);
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
