// The loop of a warp over its keys, and the reduction over the warps of a block.
#pragma once

#include "kernels/cuda/device/decode_ring.cuh"
#include "kernels/cuda/device/decode_scores.cuh"
#include "kernels/cuda/device/softmax.cuh"

namespace posenc::cuda {

template <int kDim>
struct DecodeSums {
  OnlineSoftmax softmax;
  float out[kDim / 8][4] = {};

  // Takes a step of scores (they become weights) and its values. kCareful: hidden values, those of scores
  // -infinity, are left out; else they are multiplied by 0.
  template <class T, bool kCareful>
  __device__ void add(float (&x)[2][4], std::uint32_t values) {
    std::uint32_t seen[2] = {0, 0};
    if constexpr (kCareful) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        if (x[i % 4 / 2][2 * (i / 4) + i % 2] != -INFINITY) seen[i / 4] |= 1u << i % 4;
      }
    }
    float shrink[2];
    softmax.exponentiate(x, kLog2e, shrink);
    if (!__all_sync(~0u, shrink[0] == 1.0f && shrink[1] == 1.0f)) {
#pragma unroll
      for (int i = 0; i < kDim / 2; ++i) out[i / 4][i % 4] *= shrink[i % 4 / 2];
    }
    if constexpr (kCareful) {
      add_seen_values<T, kDim>(x, seen, values, out);
    } else {
      add_values<T, kDim>(x, values, out);
    }
  }

  // Rows of NaN.
  __device__ void spoil() {
#pragma unroll
    for (int h = 0; h < 2; ++h) softmax.sum[h] = NAN;
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i / 4][i % 4] = NAN;
  }

  // Whether some sum of a row that is there is not finite, for the whole warp.
  __device__ bool is_suspect(const DecodeRows& mine) const {
    float part[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) {
      part[i % 4 / 2] = fmaf(out[i / 4][i % 4], 0.0f, part[i % 4 / 2]);
    }
    return __any_sync(
        ~0u, (mine.row[0].valid && part[0] != 0.0f) || (mine.row[1].valid && part[1] != 0.0f));
  }
};

// Without CoPE: everything in one pass.
template <class T, int kDim, bool kCareful>
__device__ inline void walk_all(const DecodeParams& p, const DecodeBlock& block,
                                const DecodeRows& mine, const Range& keys, std::uint32_t memory,
                                DecodeSums<kDim>& sums) {
  DecodeRing<T, kDim, DecodePhase::kAll> ring(p, block, mine, keys, memory);
  DecodeSight sight(p, block, mine);
  const DecodeBiases table(p, block, mine);
  RowFragments<kDim> q;
  load_rows<T, kDim>(p, block, mine, q);
#pragma unroll 1
  for (int i = 0; i < ring.steps(); ++i) {
    const int key = ring.key_of(i);
    StepBiases biases;
    table.read(key, biases);
    sight.look(key);
    ring.take(i);
    float x[2][4];
    multiply_keys<T, kDim>(q, ring.keys(), x);
    add_biases(biases, p.a.scale, x);
    bound_scores(p, x);
    sight.hide(key, x);
    sums.template add<T, kCareful>(x, ring.values());
  }
  if (!ring.intact()) sums.spoil();
}

// With CoPE, first: scores, sums of gates, and the tables of position logits.
template <class T, int kDim>
__device__ inline void walk_scores(const DecodeParams& p, const DecodeBlock& block,
                                   const DecodeRows& mine, const Range& keys, int unit, int units,
                                   std::uint32_t memory) {
  DecodeRing<T, kDim, DecodePhase::kScores> ring(p, block, mine, keys, memory);
  keep_logits<T>(p, block);
  DecodeSight sight(p, block, mine);
  const DecodeBiases table(p, block, mine);
  RowFragments<kDim> q;
  load_rows<T, kDim>(p, block, mine, q);
  const CopeScores cope = cope_scores(p);
  std::uint32_t gates[2] = {0, 0};
#pragma unroll 1
  for (int i = 0; i < ring.steps(); ++i) {
    const int key = ring.key_of(i);
    StepBiases biases = {};
    if (cope.sees_bias) table.read(key, biases);
    sight.look(key);
    ring.take(i);
    float x[2][4];
    multiply_keys<T, kDim>(q, ring.keys(), x);
    sight.hide(key, x);
    keep_scores(p, mine, key, x);
    count_gates(cope, DecodeTerms{cope, biases}, x, gates);
  }
  keep_gates(p, mine, unit, units, gates);
}

// With CoPE, second: positions from the last key down, and the values. The tables of logits are read
// before the first walk, in which all warps of the block take part.
template <class T, int kDim, bool kCareful>
__device__ inline void walk_weights(const DecodeParams& p, const DecodeBlock& block,
                                    const DecodeRows& mine, const Range& keys, int unit, int units,
                                    std::uint32_t memory, float* tables, DecodeSums<kDim>& sums) {
  DecodeRing<T, kDim, DecodePhase::kWeights> ring(p, block, mine, keys, memory);
  const DecodeBiases table(p, block, mine);
  if constexpr (!kCareful) read_logits(p, block, tables);
  const CopeScores cope = cope_scores(p);
  std::uint32_t carry[2];
  gates_behind(p, cope, mine, unit, units, carry);
  if constexpr (!kCareful) __syncthreads();
  const float* z[2];
  float last[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    // A row that is not there reads the table of the first.
    const int row = mine.row[h].valid ? mine.lane / 4 + 8 * h : 0;
    z[h] = tables + row * logit_stride(p.a.cope.npos_max);
    last[h] = z[h][p.a.cope.npos_max - 1];
  }
#pragma unroll 1
  for (int i = 0; i < ring.steps(); ++i) {
    StepBiases biases;
    table.read(ring.key_of(i), biases);
    ring.take(i);
    float x[2][4];
    ring.read_scores(x);
    std::uint32_t hidden = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) hidden |= x[n / 4][n % 4] == -INFINITY ? 1u << n : 0u;
    const DecodeTerms terms{cope, biases};
    if (all_counted(cope, carry)) {
      add_constants(terms, last, x);
    } else {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        add_cope_row(cope, terms, h, z[h], mine.column, x, carry[h]);
      }
    }
    bound_scores(p, x);
    if (hidden != 0) {  // their biases may be NaN
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        if ((hidden >> n & 1) != 0) x[n / 4][n % 4] = -INFINITY;
      }
    }
    sums.template add<T, kCareful>(x, ring.values());
  }
  if (!ring.intact()) sums.spoil();
}

// Where the warps of a block lay down what they found; their rings are no longer needed.
template <int kDim>
struct JoinSpace {
  static constexpr int kWarps = decode_warps(kDim);
  static constexpr int kStride = kDim + 8;  // rows in other banks
  float2 softmax[kWarps][kStepRows];
  float sums[kWarps][kStepRows][kStride];
};

template <int kDim>
__device__ inline void store_sums(const DecodeRows& mine, int warp, const DecodeSums<kDim>& sums,
                                  JoinSpace<kDim>& space) {
  float totals[2];
  sums.softmax.finish(totals);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (!mine.row[h].valid) continue;
    const int row = mine.lane / 4 + 8 * h;
    if (mine.column == 0) space.softmax[warp][row] = {sums.softmax.maximum[h], totals[h]};
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      store_pair(&space.sums[warp][row][8 * n + 2 * mine.column], sums.out[n][2 * h],
                 sums.out[n][2 * h + 1]);
    }
  }
}

// The block's part of each row: its maximum, and sums relative to it, always in the same order.
template <int kDim>
__device__ inline void join_warps(const DecodeParams& p, const DecodeBlock& block,
                                  const JoinSpace<kDim>& space) {
  constexpr int kWarps = JoinSpace<kDim>::kWarps;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int r = warp; r < block.rows(p); r += kWarps) {
    float largest = -INFINITY;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) largest = fmaxf(largest, space.softmax[w][r].x);
    float scale[kWarps];
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float2 found = space.softmax[w][r];
      scale[w] = found.x == -INFINITY ? 0.0f : exp2_fast((found.x - largest) * kLog2e);
      total += scale[w] * found.y;
    }
    const std::int64_t part = block.row(p, r).index * p.splits + block.split;
    if (lane == 0) p.softmax[part] = {largest, total};
    for (int c = lane; c < p.a.head_dim; c += 32) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += scale[w] * space.sums[w][r][c];
      p.parts[part * p.a.head_dim + c] = sum;
    }
  }
}

}  // namespace posenc::cuda
