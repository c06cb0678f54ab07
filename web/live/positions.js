// Quality by position of one run: a line per condition beyond training, chance dashed, the trained length marked.

/** @typedef {{from: number, to: number, loss: number, correct: number, scored: number, chance?: number}} Bucket */

/** Of text, in which no answer is right or wrong. @param {string | undefined} metric */
export function inBits(metric) {
  return metric === 'bits_per_byte' || metric === 'bits_per_token';
}

/** @param {Bucket} bucket @param {string} metric */
function bucketValue({ loss, correct, scored }, metric) {
  if (inBits(metric)) return loss / Math.LN2;
  return metric === 'error' ? 1 - correct / scored : correct / scored;
}

/**
 * Of conditions that ask for more than training showed, with answers in two places or more.
 * @param {any} results
 * @param {string[]} colors
 * @returns {import('../shared/line_chart.js').Line[]}
 */
export function positionLines(results, colors) {
  /** @type {{row: any, buckets: Bucket[]}[]} */
  const shown = results.rows
    .filter((/** @type {any} */ row) => row.beyond_training)
    .map((/** @type {any} */ row) => ({ row, buckets: (row.by_position ?? []).filter((/** @type {Bucket} */ b) => b.scored > 0) }))
    .filter((/** @type {{buckets: Bucket[]}} */ { buckets }) => buckets.length > 1);
  return shown.flatMap(({ row, buckets }, i) => {
    const name = `${row.axis} ${row.length}${row.schedule ? ` (${row.schedule})` : ''}`;
    const line = { name, color: colors[i % colors.length], x: buckets.map((b) => (b.from + b.to) / 2) };
    const values = { ...line, y: buckets.map((b) => bucketValue(b, results.metric)) };
    if (inBits(results.metric)) return [values]; // a guess has no bits worth a line
    return [values, { ...line, name: `${name}, chance`, dash: [4, 4], y: buckets.map((b) => b.chance ?? NaN) }];
  });
}
