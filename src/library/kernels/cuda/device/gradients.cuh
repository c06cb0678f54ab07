// From raw scores and the gradient at the weights to weights and the gradient at the raw scores, in
// registers.
//
//   p = exp(s - lse),  ds = p (keep dp - delta)                     keep: the dropout's factor
//   CoPE: dposition = ds slope,  dgate = PREFIX sum of dposition    over keys, in their order
//         draw = ds + dgate g (1 - g)
#pragma once

#include "kernels/cuda/device/scores.cuh"

namespace posenc::cuda {

// What the backward knows of a thread's two rows.
struct RowState {
  float lse2[2];  // log-sum-exp in powers of two; +infinity for rows without keys: weight 0
  float delta[2];
};

__device__ inline void load_row_state(const AttentionParams& p, const float* delta,
                                      const Sequence& s, int head, int query,
                                      const ThreadRows& mine, RowState& state) {
  const std::int64_t row =
      (static_cast<std::int64_t>(s.batch) * p.heads + head) * p.queries + s.first_query + query;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool real = query + mine.row[h] < s.queries;
    const float lse = real ? p.lse[row + mine.row[h]] : -INFINITY;
    const bool empty = lse == -INFINITY;  // whatever its output gradient holds
    state.lse2[h] = empty ? INFINITY : lse * kLog2e;
    state.delta[h] = empty ? 0.0f : delta[row + mine.row[h]];
  }
}

// The sum of a row's score gradients: nothing, but for what a sink takes of the row's weight.
__device__ inline void row_totals(const AttentionParams& p, int head, const RowState& rows,
                                  float (&totals)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    totals[h] = 0.0f;
    if (p.sinks == nullptr || rows.lse2[h] == INFINITY) continue;
    totals[h] = rows.delta[h] * exp2_fast(fmaf(p.sinks[head], kLog2e, -rows.lse2[h]));
  }
}

// Where CoPE adds one constant per row, the log-sum-exp takes it.
__device__ inline RowState without_constants(const RowState& rows, const float (&constant)[2]) {
  RowState moved = rows;
#pragma unroll
  for (int h = 0; h < 2; ++h) moved.lse2[h] -= constant[h] * kLog2e;
  return moved;
}

struct Keep {
  std::uint32_t bits[2];
  float scale;
  bool drops = false;
  __device__ float factor(int h, int j) const { return (bits[h] >> j & 1) != 0 ? scale : 0.0f; }
};
__device__ inline Keep keep_all() { return {{0xffffu, 0xffffu}, 1.0f}; }
__device__ inline Keep keep_of(const AttentionParams& p, const Sequence& s, int head, int query,
                               int key, const ThreadRows& mine) {
  if (p.dropout_threshold == 0) return keep_all();
  Keep keep = keep_all();
  keep.scale = p.dropout_scale;
  keep.drops = true;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    keep.bits[h] = kept_bits(p, s.batch, head, s.first_query + query + mine.row[h],
                             s.first_key + key + 16 * mine.column);
  }
  return keep;
}

// Weights, or the gradients at them, of both rows; a branch is cheaper than a factor per score.
__device__ inline void keep_some(const Keep& keep, Accum& x) {
  if (!keep.drops) return;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int h = i / 16;
    x[i % 16 / 2][2 * h + i % 2] *= keep.factor(h, i % 16);
  }
}

// x: finished scores; y: gradient at the weights. Leaves ds in y and, in x, the weights that the
// values' gradient reads (kWeights) or ds too.
template <bool kWeights>
__device__ inline void softmax_backward(const RowState& rows, const Keep& keep, float factor,
                                        Accum& x, Accum& y) {
  keep_some(keep, y);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float& s = x[j / 2][2 * h + j % 2];
      float& d = y[j / 2][2 * h + j % 2];
      const float weight = exp2_fast(fmaf(s, factor, -rows.lse2[h]));
      d = formulas::softmax_gradient(weight, d, rows.delta[h]);
      s = kWeights ? weight : d;
    }
  }
  if (kWeights) keep_some(keep, x);
}

// The same with a softcap, from scores before it.
template <bool kWeights>
__device__ inline void softcap_backward(const RowState& rows, const Keep& keep,
                                        const Softcapped& cap, Accum& x, Accum& y) {
  keep_some(keep, y);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float& s = x[j / 2][2 * h + j % 2];
      float& d = y[j / 2][2 * h + j % 2];
      const float share = cap.share(s);
      const float weight = exp2_fast(fmaf(share, cap.factor, -rows.lse2[h]));
      d = formulas::softmax_gradient(weight, d, rows.delta[h]) * Softcapped::slope(share);
      s = kWeights ? weight : d;
    }
  }
  if (kWeights) keep_some(keep, x);
}

// Gradients of a row's table. Positions decrease along the keys by at most one per key, so a thread visits the
// entries one by one. Entries it has moved past belong to it alone (except its first two), so they are
// stored, not added. The first two and the last two are added lane by lane.
class TableRuns {
 public:
  __device__ explicit TableRuns(float* row) : row_(row) {}
  __device__ void start(int segment) { first_ = segment_ = segment; }
  __device__ void add(int segment, float fraction, float ds) {
    const bool falls = segment != segment_;
    if (__any_sync(~0u, falls)) {
      if (falls) leave();
    }
    high_ = fmaf(fraction, ds, high_);
    sum_ += ds;
  }
  __device__ void finish(int column) {
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      __syncwarp();
      if (lane == column) flush();
    }
    __syncwarp();
  }

 private:
  // The entry above the segment is complete.
  __device__ void leave() {
    if (segment_ < first_ - 1) row_[segment_ + 1] = high_;
    if (segment_ == first_ - 1) top_[1] = high_;
    if (segment_ == first_) top_[0] = high_;
    high_ = sum_ = sum_ - high_;
    --segment_;
  }
  __device__ void flush() {
    const int fallen = first_ - segment_;
    const float low = sum_ - high_;
    row_[first_ + 1] += fallen == 0 ? high_ : top_[0];
    row_[first_] += fallen == 0 ? low : fallen == 1 ? high_ : top_[1];
    if (fallen > 1) row_[segment_ + 1] += high_;
    if (fallen > 0) row_[segment_] += low;
  }
  float* row_;
  int first_ = 0;
  int segment_ = 0;
  float high_ = 0.0f;  // of the entry above the segment
  float sum_ = 0.0f;   // of that and the segment's own
  float top_[2] = {0.0f, 0.0f};
};

struct NoSoftcap {
  // Bounds a score and returns the derivative.
  __device__ static float apply(float& /*score*/) { return 1.0f; }
};

struct NoRuns {
  __device__ explicit NoRuns(float*) {}
  __device__ void start(int) {}
  __device__ void add(int, float, float) {}
  __device__ void finish(int) {}
};

// Raw products of a row that is NaN, or that is not there, count as if they were 0: positions must fall
// along the keys, or sums would go to entries of other rows.
__device__ inline void calm_row(const RowState& rows, int h, Accum& x) {
  if (fabsf(rows.lse2[h]) < INFINITY) return;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    float& s = x[j / 2][2 * h + j % 2];
    if (s != -INFINITY) s = 0.0f;
  }
}

// Row h. x: raw scores; y: gradient at the kept weights, 0 where a key is hidden. Leaves the gradient at
// the scores in y, that at the gates' logits in `dlogits` and, in x, the weights for the values (kWeights)
// or the gradient at the scores, too. With !kWeights the table's gradient is added to dz. `carry` is that of
// the tile's start, and `prefix` goes on from tile to tile. `cap`: what follows the scores.
template <bool kWeights, class Cope, class Terms, class Cap = NoSoftcap>
__device__ inline void cope_backward_row(const Cope& cope, const Terms& terms, int h,
                                         const float* z, float* dz, int column,
                                         const RowState& rows, std::uint32_t carry, float& prefix,
                                         Accum& x, Accum& y, float (&dlogits)[16],
                                         const Cap& cap = {}) {
  calm_row(rows, h, x);
  std::uint32_t position[16];
  float gate[16];
  std::uint32_t sum = 0;
#pragma unroll
  for (int j = 15; j >= 0; --j) {
    gate[j] = gate_of(terms.gate_exponent(h, j, x[j / 2][2 * h + j % 2]));
    sum += cope.fixed(gate[j]);
    position[j] = sum;
  }
  const std::uint32_t base = carry + suffix_of(sum, column).after;
  std::conditional_t<kWeights, NoRuns, TableRuns> runs(dz);
  float before[16];
  float dpositions = 0.0f;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const std::uint32_t p = min(base + position[j], cope.last);
    const int segment = cope.segment(p);
    const float fraction = cope.fraction(p);
    if (j == 0) runs.start(segment);
    const float low = z[segment];
    const float slope = formulas::cope_slope(low, z[segment + 1]);
    float& s = x[j / 2][2 * h + j % 2];
    float& d = y[j / 2][2 * h + j % 2];
    float score = fmaf(s, cope.scale, formulas::cope_logit(low, slope, fraction));
    if constexpr (Terms::kHasBias) {
      if (s != -INFINITY) score += terms.bias(h, j);
    }
    const float cap_slope = cap.apply(score);
    const float weight = exp2_fast(fmaf(score, kLog2e, -rows.lse2[h]));
    d = formulas::softmax_gradient(weight, d, rows.delta[h]) * cap_slope;
    s = kWeights ? weight : d;
    dpositions = fmaf(d, slope, dpositions);
    before[j] = dpositions;
    runs.add(segment, fraction, d);
  }
  runs.finish(column);
  const Prefix sums = prefix_of(dpositions, column);
  const float start = prefix + sums.before;
#pragma unroll
  for (int j = 0; j < 16; ++j) dlogits[j] = (start + before[j]) * formulas::gate_slope(gate[j]);
  prefix += sums.total;
}

// Both rows, with gates from the scores: leaves the gradient at the raw scores in y and, in x, the weights
// or the gradient at the biases.
template <int kMods, bool kWeights>
__device__ inline void cope_backward(const CopeScores& cope, const float* w,
                                     const float* const (&z)[2], float* const (&dz)[2], int column,
                                     const RowState& rows, const Keep& keep,
                                     const std::uint32_t (&carry)[2], float (&prefix)[2], Accum& x,
                                     Accum& y) {
  const WindowTerms<kMods> terms{cope, w};
  keep_some(keep, y);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float dlogits[16];
    cope_backward_row<kWeights>(cope, terms, h, z[h], dz[h], column, rows, carry[h], prefix[h], x,
                                y, dlogits);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float& d = y[j / 2][2 * h + j % 2];
      d += dlogits[j];
      if (!kWeights && cope.sees_bias) x[j / 2][2 * h + j % 2] = d;
    }
  }
  if (kWeights) keep_some(keep, x);
}

}  // namespace posenc::cuda
