// What the library's field rules do not say: where sliders usefully begin and end, and what a required
// field starts with. A field without a hint gets a slider about its default.
import type { Field } from './fields';
import type { Json } from './messages';

export interface Span {
  low: number;
  high: number;
  log: boolean;
}

const SPANS: Record<string, Span> = {
  theta: { low: 100, high: 1e7, log: true },
  factor: { low: 1, high: 64, log: true },
  bias_max: { low: 1, high: 16, log: false },
  gamma: { low: 0.05, high: 4, log: true },
  scale_base: { low: 32, high: 8192, log: true },
  center: { low: 0, high: 2048, log: false },
  beta_fast: { low: 2, high: 128, log: true },
  beta_slow: { low: 0.1, high: 16, log: true },
  low_freq_factor: { low: 0.25, high: 8, log: true },
  high_freq_factor: { low: 1, high: 32, log: true },
  attention_factor: { low: 0.5, high: 2, log: false },
  attn_factor: { low: 0.5, high: 2, log: false },
  mscale: { low: 0, high: 2, log: false },
  mscale_all_dim: { low: 0, high: 2, log: false },
  partial_rotary_factor: { low: 0.05, high: 1, log: false },
  num_buckets: { low: 4, high: 128, log: true },
  max_distance: { low: 4, high: 2048, log: true },
  init_std: { low: 0, high: 2, log: false },
  init_c: { low: 0.001, high: 10, log: true },
  init_threshold: { low: 16, high: 8192, log: true },
  width: { low: 1, high: 128, log: true },
  npos_max: { low: 2, high: 256, log: true },
  max_positions: { low: 16, high: 8192, log: true },
  max_position_embeddings: { low: 128, high: 131072, log: true },
  original_max_position_embeddings: { low: 128, high: 131072, log: true },
  rotary_dim: { low: 0, high: 64, log: false },
  dim_offset: { low: 0, high: 64, log: false },
  axes: { low: 0, high: 4, log: false },
  head_dim: { low: 4, high: 256, log: true },
  heads: { low: 1, high: 32, log: false },
  head: { low: 0, high: 31, log: false },
  length: { low: 8, high: 2048, log: true },
  train_length: { low: 16, high: 131072, log: true },
  samples: { low: 1, high: 512, log: true },
  gate_strength: { low: 0.5, high: 12, log: false },
  match_score: { low: 0.5, high: 12, log: false },
  table_std: { low: 0, high: 3, log: false },
  perplexity: { low: 2, high: 60, log: false },
  iterations: { low: 50, high: 2000, log: true },
  seed: { low: 0, high: 32, log: false },
};

/** Where the slider of a field runs: its hint, within what the field allows. */
export function sliderSpan(field: Field, value: number, highest = Infinity): Span {
  const near = Math.abs(value) > 0 ? Math.abs(value) : 1;
  const hint = SPANS[field.name] ?? { low: near / 16, high: near * 16, log: true };
  const low = Math.max(hint.low, field.min);
  const high = Math.min(hint.high, field.max, highest);
  return { low, high, log: hint.log && low > 0 };
}

const STARTS: Record<string, Json> = {
  factor: 4,
  max_position_embeddings: 2048,
  original_max_position_embeddings: 2048,
  low_freq_factor: 1,
  high_freq_factor: 4,
};

// Fields that are optional by themselves and wanted together.
export const COMPANIONS: Record<string, Record<string, Json>> = { longrope: { factor: 4 } };

/** What a field that has no default begins with, for a head of so many channels. */
export function startValue(name: string, headDim: number): Json {
  const pairs = Math.max(1, Math.floor(headDim / 2));
  if (name === 'short_factor') return Array.from({ length: pairs }, () => 1);
  if (name === 'long_factor') {
    // Slow pairs are stretched more, as the searched factors of published models are.
    return Array.from({ length: pairs }, (_, i) => Number((1 + (3 * i) / Math.max(1, pairs - 1)).toFixed(3)));
  }
  if (name === 'sections') {
    const third = Math.floor(pairs / 3);
    return [pairs - 2 * third, third, third];
  }
  return STARTS[name] ?? 1;
}
