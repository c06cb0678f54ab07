// Tables that sort by a column: a button in each head, numbers by their data-value.

/**
 * @param {HTMLTableRowElement} row
 * @param {number} column
 * @returns {number | string | undefined} undefined where there is no figure
 */
function sortKey(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.tagName === 'TH' ? (cell.textContent ?? '') : undefined;
}

/**
 * Missing figures come last either way.
 * @param {number | string | undefined} a
 * @param {number | string | undefined} b
 * @param {number} direction
 */
function compareKeys(a, b, direction) {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
  if (typeof a === 'number' && typeof b === 'number') return direction * (a - b);
  return direction * String(a).localeCompare(String(b));
}

/**
 * @param {HTMLTableElement} table
 * @param {number} column
 */
function sortTable(table, column) {
  const heads = [...(table.tHead?.rows[0].cells ?? [])];
  const head = heads[column];
  // Numbers are first sorted from the greatest down.
  const first = column === 0 ? 'ascending' : 'descending';
  const other = column === 0 ? 'descending' : 'ascending';
  const order = head.getAttribute('aria-sort') === first ? other : first;
  for (const cell of heads) cell.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', order);
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const direction = order === 'ascending' ? 1 : -1;
  rows.sort((a, b) => compareKeys(sortKey(a, column), sortKey(b, column), direction));
  body.append(...rows);
}

/** @param {HTMLTableElement} table */
export function makeSortable(table) {
  [...(table.tHead?.rows[0].cells ?? [])].forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'sort';
    button.append(...head.childNodes);
    button.addEventListener('click', () => sortTable(table, column));
    head.append(button);
  });
}
