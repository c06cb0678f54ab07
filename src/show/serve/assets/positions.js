// Quality by position of one run: a line per condition beyond training, chance dashed, the trained length marked.
import { CURVES } from "/live/colors.js";

const LN2 = Math.log(2);
const CHANCE_DASH = [4, 4];

const valueOf = (bucket, metric) => {
  if (metric === "bits_per_byte") return bucket.loss / LN2;
  const accuracy = bucket.correct / bucket.scored;
  return metric === "error" ? 1 - accuracy : accuracy;
};

const middle = (bucket) => (bucket.from + bucket.to) / 2;

const line = (name, buckets, y, style) => ({
  name, x: buckets.map(middle), y: buckets.map(y), marks: [], dash: [], going: false, focused: false, ...style,
});

// Rows of a condition that asks for more than training showed, with answers in two places or more.
const scoredBuckets = (row) => (row.beyond_training ? row.by_position ?? [] : []).filter((b) => b.scored > 0);

export const positionSeries = (results, theme) => {
  const colors = CURVES[theme];
  const shown = results.rows.map((row) => ({ row, buckets: scoredBuckets(row) }))
    .filter(({ buckets }) => buckets.length > 1);
  return shown.flatMap(({ row, buckets }, i) => {
    const style = { color: colors[i % colors.length] };
    const name = `${row.axis} ${row.length}${row.schedule ? ` (${row.schedule})` : ""}`;
    const lines = [line(name, buckets, (b) => valueOf(b, results.metric), style)];
    if (results.metric !== "bits_per_byte") {  // of which no chance is worth the name
      lines.push(line(`${name}, chance`, buckets, (b) => b.chance ?? NaN, { ...style, dash: CHANCE_DASH }));
    }
    return lines;
  });
};

export const positionView = (results) => ({
  log: false, smooth: 0, xName: "position", rules: [{ x: results.train_length, label: "trained" }],
});
