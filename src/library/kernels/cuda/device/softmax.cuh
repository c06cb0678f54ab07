// Online softmax of a warpgroup's rows.
#pragma once

#include "kernels/cuda/device/scores.cuh"

namespace posenc::cuda {

// The largest of a thread's 2 kN keys of row h in four parts: chains of dependent instructions are what
// a warp waits for.
template <int kN>
__device__ inline float row_maximum(const float (&x)[kN][4], int h) {
  float part[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) part[j] = x[j / 2][2 * h + j % 2];
#pragma unroll
  for (int j = 4; j < 2 * kN; ++j) part[j % 4] = fmaxf(part[j % 4], x[j / 2][2 * h + j % 2]);
  return fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
}
// The largest among the four lanes of a row, for both rows.
__device__ inline void share_maximum(float (&largest)[2]) {
#pragma unroll
  for (int step = 1; step <= 2; ++step) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(~0u, largest[h], step));
    }
  }
}

struct OnlineSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};

  // Scores to weights relative to the rows' maxima; `factor` turns a score into an exponent of two, and
  // what was summed before is to be multiplied by `shrink`.
  template <int kN>
  __device__ void exponentiate(float (&x)[kN][4], float factor, float (&shrink)[2]) {
    float largest[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) largest[h] = fmaxf(row_maximum(x, h), maximum[h]);
    share_maximum(largest);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float shift = largest[h] == -INFINITY ? 0.0f : largest[h] * factor;
      shrink[h] = exp2_fast(maximum[h] * factor - shift);
      maximum[h] = largest[h];
      float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int j = 0; j < 2 * kN; ++j) {
        float& s = x[j / 2][2 * h + j % 2];
        s = exp2_fast(fmaf(s, factor, -shift));
        part[j % 4] += s;
      }
      sum[h] = fmaf(sum[h], shrink[h], (part[0] + part[1]) + (part[2] + part[3]));
    }
  }

  // The rows' sums, of all four lanes.
  __device__ void finish(float (&sums)[2]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sums[h] = sum[h] + __shfl_xor_sync(~0u, sum[h], 1);
      sums[h] += __shfl_xor_sync(~0u, sums[h], 2);
    }
  }
};

// Weights that the dropout takes away.
__device__ inline void drop_weights(const AttentionParams& p, const Sequence& s, int head,
                                    int query, int key, const ThreadRows& mine, Accum& x) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const std::uint32_t bits = kept_bits(p, s.batch, head, s.first_query + query + mine.row[h],
                                         s.first_key + key + 16 * mine.column);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      if ((bits >> j & 1) == 0) x[j / 2][2 * h + j % 2] = 0.0f;
    }
  }
}

}  // namespace posenc::cuda
