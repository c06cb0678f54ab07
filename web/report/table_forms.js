// Tables to take along: LaTeX, which the program wrote into the page, and CSV with every digit.
import { fileName, makeElement, saveFile } from '../shared/page_parts.js';
import { addCopyButton } from './copy_button.js';

/** @param {string} text */
function csvCell(text) {
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * What a cell has for CSV: its number and the ends of its interval, else its text.
 * @param {HTMLTableCellElement | undefined} cell
 * @param {boolean} interval whether any cell of the column has one
 */
function csvCells(cell, interval) {
  const text = (cell?.textContent ?? '').trim();
  const { value, low, high } = cell?.dataset ?? {};
  const first = value ?? (text === '-' ? '' : text);
  return interval ? [first, low ?? '', high ?? ''] : [first];
}

/**
 * The rows of encodings, in the order in which they are sorted now. Shares are between 0 and 1.
 * @param {HTMLTableElement} table
 */
export function tableCsv(table) {
  const heads = [...(table.tHead?.rows[0].cells ?? [])];
  const rows = [...table.tBodies[0].rows];
  const intervals = heads.map((_, c) => rows.some((row) => row.cells[c]?.dataset.low !== undefined));
  const names = heads.flatMap((head, c) => {
    const name = head.textContent ?? '';
    return intervals[c] ? [name, `${name} low`, `${name} high`] : [name];
  });
  const lines = rows.map((row) => intervals.flatMap((interval, c) => csvCells(row.cells[c], interval)));
  return [names, ...lines].map((line) => line.map(csvCell).join(',') + '\n').join('');
}

/**
 * A button that shows a text below the table, to copy or to save.
 * @param {HTMLElement} tools
 * @param {HTMLElement} place
 * @param {{name: string, ending: string, type: string, text: () => string}} form
 * @param {string} file
 */
function addForm(tools, place, form, file) {
  const button = makeElement('button', 'tool', tools, form.name);
  button.type = 'button';
  button.setAttribute('aria-expanded', 'false');
  button.addEventListener('click', () => {
    const open = button.getAttribute('aria-expanded') !== 'true';
    for (const other of tools.children) other.setAttribute('aria-expanded', String(open && other === button));
    place.replaceChildren();
    if (!open) return;
    const pre = makeElement('pre', 'command form', place);
    pre.tabIndex = 0;
    addCopyButton(makeElement('code', '', pre, form.text()));
    const save = makeElement('button', 'tool', place, `Save as ${file}.${form.ending}`);
    save.type = 'button';
    save.addEventListener('click', () =>
      saveFile(new Blob([form.text()], { type: form.type }), `${file}.${form.ending}`),
    );
  });
}

/**
 * @param {HTMLTableElement} table
 * @param {string | undefined} latex
 */
export function addTableForms(table, latex) {
  const frame = /** @type {HTMLElement} */ (table.parentElement);
  const tools = makeElement('div', 'table-tools');
  const place = makeElement('div', 'table-form');
  frame.before(tools);
  frame.after(place);
  const task = table.closest('section')?.querySelector('h2')?.textContent ?? '';
  const [axis, what] = (table.caption?.textContent ?? '').split(':'); // "axis longer: accuracy in % ..."
  const file = fileName('posenc', task, what === undefined ? 'overview' : axis);
  if (latex !== undefined) {
    addForm(tools, place, { name: 'LaTeX', ending: 'tex', type: 'text/x-tex', text: () => latex }, file);
  }
  addForm(tools, place, { name: 'CSV', ending: 'csv', type: 'text/csv', text: () => tableCsv(table) }, file);
}
