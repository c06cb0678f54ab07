// Values to colours and back: the ends of a scale, and how it runs between them.
//
// Readouts always show the value itself; a scale only decides which of 256 colours a cell gets.

/** @typedef {'linear' | 'sqrt' | 'log'} ScaleKind */
/** @typedef {{low: number, high: number, kind: ScaleKind}} ValueScale */

// A logarithm needs a least magnitude where the scale reaches 0: four decades below the larger end.
const LOG_DECADES = 1e-4;

/**
 * The monotone function that a scale is linear in.
 * @param {ValueScale} scale
 * @returns {(value: number) => number}
 */
export function scaleWarp(scale) {
  if (scale.kind === 'sqrt') return (v) => Math.sign(v) * Math.sqrt(Math.abs(v));
  if (scale.kind === 'linear') return (v) => v;
  if (scale.low > 0) return (v) => Math.log(Math.max(v, Number.MIN_VALUE));
  const least = logLeast(scale);
  return (v) => Math.sign(v) * Math.log1p(Math.abs(v) / least);
}

/**
 * @param {ValueScale} scale
 * @returns {(warped: number) => number}
 */
function scaleUnwarp(scale) {
  if (scale.kind === 'sqrt') return (w) => w * Math.abs(w);
  if (scale.kind === 'linear') return (w) => w;
  if (scale.low > 0) return (w) => Math.exp(w);
  const least = logLeast(scale);
  return (w) => Math.sign(w) * Math.expm1(Math.abs(w)) * least;
}

/** @param {ValueScale} scale */
function logLeast(scale) {
  return Math.max(Math.abs(scale.low), Math.abs(scale.high), Number.MIN_VALUE) * LOG_DECADES;
}

/**
 * Where a value lies between the ends: 0 to 1, clamped; NaN stays NaN.
 * @param {ValueScale} scale
 * @param {number} value
 */
export function scaleFraction(scale, value) {
  const warp = scaleWarp(scale);
  const low = warp(scale.low);
  const span = warp(scale.high) - low;
  if (!(span > 0)) return value > scale.low ? 1 : value === value ? 0 : NaN;
  return Math.min(1, Math.max(0, (warp(value) - low) / span));
}

/**
 * The value at a fraction of the scale.
 * @param {ValueScale} scale
 * @param {number} fraction
 */
export function scaleValue(scale, fraction) {
  const warp = scaleWarp(scale);
  const low = warp(scale.low);
  return scaleUnwarp(scale)(low + fraction * (warp(scale.high) - low));
}

/**
 * Four significant digits, without trailing zeros.
 * @param {number | null | undefined} value
 */
export function shortNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  const exponent = size !== 0 && (size < 1e-3 || size >= 1e6);
  return exponent ? value.toExponential(2).replace('e+', 'e').replace('.00e', 'e') : String(Number(value.toPrecision(4)));
}

/**
 * The value of a map's cell.
 * @param {number} value
 */
export function formatValue(value) {
  return Number.isNaN(value) ? 'masked' : shortNumber(value);
}

/**
 * Round numbers between two ends, about so many.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function roundTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? rough;
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; ++k) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}
