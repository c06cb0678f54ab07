// Stick-breaking on a tile of scores in registers, forward and backward. A thread has sixteen consecutive keys of two rows;
// the nearest key is the last.
//
//   g = sigmoid(s),  w_j = g_j L_j,  L_j = PROD_{t > j} (1 - g_t)
//   ds_j = w_j dw_j (1 - g_j) - g_j SUM_{t < j} w_t dw_t
//
// Products are multiplied within a thread; between threads and tiles their logarithms are added, so a carry is log2 of the
// remainder of a row. Every kernel adds in the same order, so all compute the same weights.
#pragma once

#include "kernels/cuda/device/general_scores.cuh"

namespace posenc::cuda {

// Less than the smallest normal number is left of a row: exp2 makes 0 of all further weights.
inline constexpr float kNothingLeft = -126.0f;

// Of what a key leaves over what it takes: both stay normal numbers.
inline constexpr float kMostExponent = 100.0f;

// NaN counts as a remainder: the loop continues, and the row becomes NaN.
__device__ inline bool nothing_left(const float (&carry)[2]) {
  return carry[0] < kNothingLeft && carry[1] < kNothingLeft;
}

// Of kThreads threads that meet at a named barrier.
template <int kThreads>
__device__ inline bool nothing_left_by(const float (&carry)[2], int barrier) {
  int all;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.s32 p, %1, 0; barrier.cta.red.and.pred q, %2, %3, p; "
      "selp.s32 %0, 1, 0, q; }"
      : "=r"(all)
      : "r"(static_cast<int>(nothing_left(carry))), "r"(barrier), "n"(kThreads)
      : "memory");
  return all != 0;
}

// What the keys of the lanes after leave, and all keys of the row's tile, as logarithms.
struct StickSuffix {
  float after;
  float total;
};
__device__ inline StickSuffix stick_suffix(float own, int column) {
  const float next = __shfl_down_sync(~0u, own, 1, 4);
  const float second = __shfl_down_sync(~0u, own, 2, 4);
  const float third = __shfl_down_sync(~0u, own, 3, 4);
  float after = column < 3 ? next : 0.0f;
  if (column < 2) after += second;
  if (column < 1) after += third;
  return {after, __shfl_sync(~0u, own + after, 0, 4)};
}

// The fractions that a key takes and leaves, from -log2(e) times its score; masked keys take nothing.
struct StickShare {
  float taken;
  float left;
};
__device__ inline StickShare stick_share(float exponent, bool visible) {
  if (exponent > kMostExponent) exponent = kMostExponent;  // not fminf, which would lose a NaN
  const float odds = exp2_fast(exponent);
  const float taken = reciprocal_fast(1.0f + odds);
  return visible ? StickShare{taken, odds * taken} : StickShare{0.0f, 1.0f};
}

// Scores with biases, of which hidden ones may be anything.
struct GeneralSticks {
  float scale;
  const Biases& biases;
  const Seen& seen;
  __device__ float exponent(int h, int j, float raw) const {
    return fmaf(raw, scale, biases[h][j]) * -kLog2e;
  }
  __device__ bool visible(int h, int j, float) const { return (seen.bits[h] >> j & 1) != 0; }
};
// Raw scores alone; hidden ones are -infinity where there are any (kMasked).
template <bool kMasked>
struct PlainSticks {
  float factor;  // of an exponent of two
  __device__ float exponent(int, int, float raw) const { return raw * -factor; }
  __device__ static bool visible(int, int, float raw) { return !kMasked || raw != -INFINITY; }
};

// Row h: raw scores to weights, carrying what is left on. `taken` are the keys' shares.
template <class Terms>
__device__ inline void break_stick_row(const Terms& terms, int h, int column, Accum& x,
                                       float (&taken)[16], float& carry) {
  float left = 1.0f;
#pragma unroll
  for (int j = 15; j >= 0; --j) {
    float& s = x[j / 2][2 * h + j % 2];
    const StickShare share = stick_share(terms.exponent(h, j, s), terms.visible(h, j, s));
    taken[j] = share.taken;
    s = share.taken * left;
    left *= share.left;
  }
  constexpr float kLeast = 0x1.0p-126f;
  const StickSuffix suffix = stick_suffix(log2f(left < kLeast ? kLeast : left), column);
  const float before = exp2_fast(carry + suffix.after);
#pragma unroll
  for (int j = 0; j < 16; ++j) x[j / 2][2 * h + j % 2] *= before;
  carry += suffix.total;
}

template <class Terms>
__device__ inline void break_sticks(const Terms& terms, int column, Accum& x, float (&carry)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float taken[16];
    break_stick_row(terms, h, column, x, taken, carry[h]);
  }
}

// x: raw scores, y: gradient at the weights, 0 for hidden pairs. Leaves the gradient at the scores in y and, in x, the
// weights (kWeights) or that gradient, too. `carry` is that of the tile's start, and `prefix`, the sum of w dw over
// keys before, goes on from tile to tile. A NaN of a row's rest or output is one of all its keys.
template <bool kWeights, class Terms>
__device__ inline void differentiate_sticks(const Terms& terms, int column, const RowState& rows,
                                            const float (&carry)[2], float (&prefix)[2], Accum& x,
                                            Accum& y) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float taken[16];
    float left = rows.lse2[h] != rows.lse2[h] ? rows.lse2[h] : carry[h];
    break_stick_row(terms, h, column, x, taken, left);
    float sum = 0.0f;
    float before[16];
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      before[j] = sum;
      sum = fmaf(x[j / 2][2 * h + j % 2], y[j / 2][2 * h + j % 2], sum);
    }
    const Prefix sums = prefix_of(sum, column);
    const float start = prefix[h] + sums.before + (rows.delta[h] != rows.delta[h] ? NAN : 0.0f);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float& weight = x[j / 2][2 * h + j % 2];
      float& d = y[j / 2][2 * h + j % 2];
      d = weight * d * (1.0f - taken[j]) - taken[j] * (start + before[j]);
      if (!kWeights) weight = d;
    }
    prefix[h] += sums.total;
  }
}

// The same for any gradients at the weights, with dropout: 0 for hidden pairs, and weights as the values' gradient
// reads them.
template <bool kWeights>
__device__ inline void sticks_backward(float scale, const Biases& biases, int column,
                                       const RowState& rows, const Keep& keep, Seen seen,
                                       const float (&carry)[2], float (&prefix)[2], Accum& x,
                                       Accum& y) {
  // Rows past the last query see a key that no query sees, the last: what it holds is not theirs either.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (rows.lse2[h] != INFINITY) continue;
    seen.all = false;
    seen.bits[h] = 0;
  }
  replace_hidden(seen, 0.0f, y);
  keep_some(keep, y);
  differentiate_sticks<kWeights>(GeneralSticks{scale, biases, seen}, column, rows, carry, prefix, x,
                                 y);
  if (kWeights) keep_some(keep, x);
  replace_hidden(seen, 0.0f, x);
  replace_hidden(seen, 0.0f, y);
}

}  // namespace posenc::cuda
