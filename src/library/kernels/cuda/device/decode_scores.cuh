// Applies the modifiers to a step of scores in registers, x[2][4]: four consecutive keys of two rows.
#pragma once

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/elements.cuh"

namespace posenc::cuda {

using StepBiases = float[2][4];

// Hides the keys that a thread's rows do not see.
class DecodeSight {
 public:
  __device__ DecodeSight(const DecodeParams& p, const DecodeBlock& block, const DecodeRows& mine)
      : s_(decoded_sequence(p.a, block.batch)), mine_(mine) {
    if (p.a.key_mask == nullptr) return;
    mask_ = p.a.key_mask + static_cast<std::int64_t>(block.batch) * p.a.keys;
  }
  // Reads the mask of a step: a while before it is needed.
  __device__ void look(int key) {
    if (mask_ != nullptr) real_ = real_bits<4>(mask_, mine_.key(key), s_.keys);
  }
  __device__ void hide(int key, float (&x)[2][4]) const {
    if (mask_ == nullptr && key >= s_.lowest(s_.queries - 1) &&
        key + kStepKeys - 1 <= s_.highest(0)) {
      return;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t bits = real_ & visible_bits(s_, mine_.row[h].query, mine_.key(key));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if ((bits >> j & 1) == 0) x[j / 2][2 * h + j % 2] = -INFINITY;
      }
    }
  }

 private:
  Sequence s_;
  const DecodeRows& mine_;
  const std::uint8_t* mask_ = nullptr;
  std::uint32_t real_ = ~0u;
};

// The Toeplitz biases of a thread's rows, read straight from the table; zeros without one.
class DecodeBiases {
 public:
  __device__ DecodeBiases(const DecodeParams& p, const DecodeBlock& block, const DecodeRows& mine)
      : mine_(mine) {
    const ToeplitzTable& toeplitz = p.a.toeplitz;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const DecodeRow& row = mine.row[h];
      if (toeplitz.table == nullptr || !row.valid) continue;
      const std::int64_t at =
          toeplitz.zero + row.query + block.sequence_keys - p.a.queries;  // of key 0
      row_[h] = toeplitz.table + row.head * toeplitz.head_stride + at;
      low_[h] = static_cast<int>(max(at - toeplitz.span + 1, std::int64_t{0}));
      high_[h] = static_cast<int>(min(at, static_cast<std::int64_t>(block.sequence_keys)));
    }
  }
  __device__ void read(int key, StepBiases& biases) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int own = mine_.key(key) + j;
        biases[h][j] = own >= low_[h] && own <= high_[h] ? __ldg(row_[h] - own) : 0.0f;
      }
    }
  }

 private:
  const DecodeRows& mine_;
  const float* row_[2] = {nullptr, nullptr};  // the entry of key 0
  int low_[2] = {1, 1};                       // keys whose distances the table has
  int high_[2] = {0, 0};
};

__device__ inline void add_biases(const StepBiases& biases, float scale, float (&x)[2][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float& s = x[j / 2][2 * h + j % 2];
      s = fmaf(s, scale, biases[h][j]);
    }
  }
}

// The softcap, exact: decoding waits for memory.
__device__ inline void bound_scores(const DecodeParams& p, float (&x)[2][4]) {
  if (p.a.softcap <= 0.0f) return;
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    float& s = x[n / 4][n % 4];
    s = p.a.softcap * tanhf(s / p.a.softcap);
  }
}

struct DecodeTerms {
  static constexpr bool kHasBias = true;
  const CopeScores& cope;
  const StepBiases& biases;
  __device__ float bias(int h, int j) const { return biases[h][j]; }
  __device__ float gate_exponent(int h, int j, float raw) const {
    return exponent_of(*this, h, j, raw);
  }
};

__device__ inline CopeScores cope_scores(const DecodeParams& p) {
  return {p.a.scale, p.a.cope.gates_see_bias,
          static_cast<std::uint32_t>(p.a.cope.npos_max - 1) << kPositionBits};
}

// Raw scores and the sums of gates, for the launch that adds positions.
__device__ inline void keep_scores(const DecodeParams& p, const DecodeRows& mine, int key,
                                   const float (&x)[2][4]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const DecodeRow& row = mine.row[h];
    if (!row.valid) continue;
    *reinterpret_cast<float4*>(p.scores + row.index * p.kept_row + mine.key(key)) =
        make_float4(x[0][2 * h], x[0][2 * h + 1], x[1][2 * h], x[1][2 * h + 1]);
  }
}
__device__ inline void keep_gates(const DecodeParams& p, const DecodeRows& mine, int unit,
                                  int units, const std::uint32_t (&sums)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const DecodeRow& row = mine.row[h];
    if (row.valid && mine.column == 0) p.gates[row.index * units + unit] = sums[h];
  }
}

// What the gates after a warp's keys add up to, as far as the table goes: sums are exact, so their order
// does not matter. Rows that are not there have counted.
__device__ inline void gates_behind(const DecodeParams& p, const CopeScores& cope,
                                    const DecodeRows& mine, int unit, int units,
                                    std::uint32_t (&carry)[2]) {
  constexpr int kAtOnce = 8;  // loads under way
#pragma unroll
  for (int h = 0; h < 2; ++h) carry[h] = mine.row[h].valid ? 0 : cope.last;
  for (int first = unit + 1; first < units && !all_counted(cope, carry); first += 4 * kAtOnce) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::uint32_t* from = p.gates + mine.row[h].index * units;
      std::uint32_t sum = 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = first + 4 * i + mine.column;
        if (mine.row[h].valid && at < units) sum = min(sum + from[at], cope.last);
      }
      sum = min(sum + __shfl_xor_sync(~0u, sum, 1), cope.last);
      sum = min(sum + __shfl_xor_sync(~0u, sum, 2), cope.last);
      carry[h] = min(carry[h] + sum, cope.last);
    }
  }
}

// z[n] = logit_scale <plain q, pos_emb[:, n]>, or n times a slope, of a block's rows, with one entry more
// as scores.cuh has it. The splits of a head share the entries.
template <class T>
__device__ inline float position_logit(const DecodeParams& p, const DecodeBlock& block,
                                       const DecodeRow& row, int n) {
  const CopeTable& cope = p.a.cope;
  if (cope.slopes != nullptr) return cope.slopes[row.head] * static_cast<float>(n);
  const Tensor4& plain = cope.plain_q.data != nullptr ? cope.plain_q : p.a.q;
  const T* q = rows_of<T>(plain, block.batch, row.head, row.query).data;
  float sum = 0.0f;
#pragma unroll 4
  for (int c = 0; c < p.a.head_dim; c += kDecodeVector) {
    const auto x = load_elements<T, kDecodeVector>(q + c);
#pragma unroll
    for (int i = 0; i < kDecodeVector; ++i) {
      sum = fmaf(to_float(x.at[i]), __ldg(cope.pos_emb + (c + i) * cope.npos_max + n), sum);
    }
  }
  return sum;
}
template <class T>
__device__ inline void keep_logits(const DecodeParams& p, const DecodeBlock& block) {
  const int npos = p.a.cope.npos_max;
  const int count = block.rows(p) * (npos + 1);
  const int threads = static_cast<int>(blockDim.x);
  for (int i = block.split * threads + static_cast<int>(threadIdx.x); i < count;
       i += p.splits * threads) {
    const DecodeRow row = block.row(p, i / (npos + 1));
    const int n = i % (npos + 1);
    p.logits[row.index * logit_stride(npos) + n] =
        p.a.cope.logit_scale * position_logit<T>(p, block, row, min(n, npos - 1));
  }
}
// Those of the block's rows to shared memory.
__device__ inline void read_logits(const DecodeParams& p, const DecodeBlock& block, float* tables) {
  const int stride = logit_stride(p.a.cope.npos_max);
  const int count = block.rows(p) * stride;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    tables[i] = p.logits[block.row(p, i / stride).index * stride + i % stride];
  }
}

}  // namespace posenc::cuda
