// A ring buffer per warp in shared memory. A stage holds 16 keys, their values and, with CoPE, their stored scores. Warps
// only synchronise with themselves. Keys of a stage are permuted such that the four score columns of a thread
// (8 n + 2 c + e for c = lane % 4) are four consecutive keys.
#pragma once

#include "kernels/cuda/device/decode.cuh"
#include "kernels/cuda/device/planes.cuh"

namespace posenc::cuda {

inline constexpr int kStepTile = kStepKeys * 128;  // bytes of 64 channels of a step

__device__ inline constexpr int slot_of_key(int key) {
  return (key >> 1 & 1) * 8 + (key >> 2) * 2 + (key & 1);
}

// Begins to copy 16 rows from `first` on (those at or past `count` are zeros), dim channels of kDim.
template <int kDim, class T>
__device__ inline void load_step(std::uint32_t to, const RowsOf<T>& from, int first, int count,
                                 int dim) {
  constexpr int kChunks = kDim / 8;
  constexpr int kAtOnce = 32 / kChunks;  // rows of one copy of the warp
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int chunk = lane % kChunks;
  const int own = lane / kChunks;
  const T* source = from.data + (first + own) * from.stride + chunk * 8;
  to += chunk / 8 * kStepTile;
  const bool whole = first + kStepKeys <= count && dim == kDim;
#pragma unroll
  for (int key = 0; key < kStepKeys; key += kAtOnce) {
    // Bits of `key` and `own` are apart, so their slots add up.
    const std::uint32_t target = to + chunk_offset(slot_of_key(key) + slot_of_key(own), chunk % 8);
    if (whole) {
      copy_16_async(target, source + key * from.stride);
    } else {
      const bool real = first + own + key < count && chunk * 8 < dim;
      copy_16_async(target, real ? source + key * from.stride : from.data, real);
    }
  }
}

template <class T, int kDim, DecodePhase kPhase>
class DecodeRing {
 public:
  static constexpr bool kHasKeys = kPhase != DecodePhase::kWeights;
  static constexpr bool kHasValues = kPhase != DecodePhase::kScores;
  static constexpr bool kHasScores = kPhase == DecodePhase::kWeights;
  static constexpr int kStages = decode_stages(kDim, kPhase);
  static constexpr int kRowBytes = kDim / 64 * kStepTile;
  static constexpr int kScoreBytes = 32 * 16;  // of one of a thread's rows
  static constexpr int kStageBytes =
      (kHasKeys && kHasValues ? 2 : 1) * kRowBytes + (kHasScores ? 2 * kScoreBytes : 0);
  static constexpr int kBytes = kStages * kStageBytes;

  // Steps go up from the first key of the range, or down from the last (CoPE counts what is behind).
  __device__ DecodeRing(const DecodeParams& p, const DecodeBlock& block, const DecodeRows& mine,
                        const Range& keys, std::uint32_t memory)
      : p_(p),
        mine_(mine),
        keys_(rows_of<T>(p.a.k, p.a.pages.pages == nullptr ? block.batch : 0, block.kv_head, 0)),
        values_(rows_of<T>(p.a.v, p.a.pages.pages == nullptr ? block.batch : 0, block.kv_head, 0)),
        count_(block.sequence_keys),
        first_(keys.first),
        steps_((keys.end - keys.first + kStepKeys - 1) / kStepKeys),
        memory_(memory),
        stage_(memory) {
    if (p.a.pages.pages != nullptr) {
      pages_ = p.a.pages.pages + block.batch * p.a.pages.stride;
      look_up(0);
    }
#pragma unroll
    for (int i = 0; i < kStages - 1; ++i) load(i, memory + i * kStageBytes);
  }

  // Whether all pages so far are pages of the pool.
  [[nodiscard]] __device__ bool intact() const { return intact_; }
  [[nodiscard]] __device__ int steps() const { return steps_; }
  [[nodiscard]] __device__ int key_of(int step) const {
    return first_ + kStepKeys * (kHasScores ? steps_ - 1 - step : step);
  }
  // Waits for a step, and begins to copy another to where the one before it was. Steps in order.
  __device__ void take(int step) {
    if (step > 0) stage_ = next(stage_);
    copies_wait<kStages - 2>();
    __syncwarp();
    const std::uint32_t free =
        stage_ == memory_ ? memory_ + (kStages - 1) * kStageBytes : stage_ - kStageBytes;
    load(step + kStages - 1, free);
  }
  [[nodiscard]] __device__ std::uint32_t keys() const { return stage_; }
  [[nodiscard]] __device__ std::uint32_t values() const {
    return stage_ + (kHasKeys ? kRowBytes : 0);
  }
  // The kept scores of the thread's rows.
  __device__ void read_scores(float (&x)[2][4]) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(x[0][2 * h]), "=f"(x[0][2 * h + 1]), "=f"(x[1][2 * h]),
                     "=f"(x[1][2 * h + 1])
                   : "r"(score_address(stage_, h))
                   : "memory");
    }
  }

 private:
  [[nodiscard]] __device__ std::uint32_t next(std::uint32_t stage) const {
    const std::uint32_t after = stage + kStageBytes;
    return after == memory_ + kBytes ? memory_ : after;
  }
  [[nodiscard]] __device__ std::uint32_t score_address(std::uint32_t stage, int h) const {
    return stage + kRowBytes + h * kScoreBytes + 16 * mine_.lane;
  }
  // Groups of copies are counted, so that there is one for every step, real or not.
  __device__ void load(int step, std::uint32_t to) {
    if (step < steps_) {
      const int key = key_of(step);
      const int start = pages_ == nullptr ? 0 : key >> p_.a.pages.page_bits << p_.a.pages.page_bits;
      if constexpr (kHasKeys) load_rows_of(keys_, p_.a.k, key, start, to);
      if constexpr (kHasValues) {
        load_rows_of(values_, p_.a.v, key, start, to + (kHasKeys ? kRowBytes : 0));
      }
      if constexpr (kHasScores) load_scores(to, key);
      if (pages_ != nullptr) look_up(step + 1);
    }
    copies_commit();
  }
  // Rows of a step; those of a page begin at key `start`. Pages have a multiple of kStepKeys tokens.
  __device__ void load_rows_of(const RowsOf<T>& all, const Tensor4& tensor, int key, int start,
                               std::uint32_t to) const {
    const RowsOf<T> rows{all.data + page_ * tensor.batch_stride, all.stride};
    load_step<kDim>(to, rows, key - start, count_ - start, p_.a.head_dim);
  }
  // The page of a step, read one step before its copies begin.
  __device__ void look_up(int step) {
    if (step >= steps_) return;
    page_ = __ldg(pages_ + (key_of(step) >> p_.a.pages.page_bits));
    if (page_ >= 0 && page_ < p_.a.pages.pool) return;
    intact_ = false;
    page_ = 0;
  }
  __device__ void load_scores(std::uint32_t to, int key) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const DecodeRow& row = mine_.row[h];
      const float* from = p_.scores + row.index * p_.kept_row + mine_.key(key);
      copy_16_async(score_address(to, h), row.valid ? from : p_.scores, row.valid);
    }
  }

  const DecodeParams& p_;
  const DecodeRows& mine_;
  RowsOf<T> keys_;
  RowsOf<T> values_;
  const std::int32_t* pages_ = nullptr;  // of the sequence
  std::int64_t page_ = 0;                // of the next step to copy; 0 without pages
  bool intact_ = true;
  int count_;  // keys of the sequence
  int first_;
  int steps_;
  std::uint32_t memory_;
  std::uint32_t stage_;  // of the step that was taken
};

// The rows of a block as left operands; rows and channels that are not there are zeros.
template <int kDim>
using RowFragments = std::uint32_t[kDim / 16][4];

template <class T, int kDim>
__device__ inline void load_rows(const DecodeParams& p, const DecodeBlock& block,
                                 const DecodeRows& mine, RowFragments<kDim>& q) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const DecodeRow& row = mine.row[h];
    const T* from = rows_of<T>(p.a.q, block.batch, row.head, row.query).data;
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const int channel = 8 * i + 2 * mine.column;
      const bool real = row.valid && channel < p.a.head_dim;
      q[i / 2][i % 2 * 2 + h] = real ? *reinterpret_cast<const std::uint32_t*>(from + channel) : 0u;
    }
  }
}

// x = Q K^T of a step.
template <class T, int kDim>
__device__ inline void multiply_keys(const RowFragments<kDim>& q, std::uint32_t keys,
                                     float (&x)[2][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = (lane & 7) + (lane >> 4 << 3);
  // A product waits for the one before it that adds to the same sums.
  constexpr int kParts = kDim > 128 ? 1 : 2;  // as registers allow
  float part[kParts][2][4] = {};
#pragma unroll
  for (int s = 0; s < kDim / 16; ++s) {
    std::uint32_t r[4];
    const int chunk = 2 * (s % 4) + (lane >> 3 & 1);
    ldmatrix4<false>(keys + s / 4 * kStepTile + chunk_offset(row, chunk), r);
    mma_16_8_16<T>(part[s % kParts][0], q[s], r[0], r[1]);
    mma_16_8_16<T>(part[s % kParts][1], q[s], r[2], r[3]);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i / 4][i % 4] = part[0][i / 4][i % 4];
    if constexpr (kParts == 2) x[i / 4][i % 4] += part[1][i / 4][i % 4];
  }
}

// out += P V of a step. Weights are split into two parts, because rounding them to 16 bits would dominate the error;
// the extra products are cheap, since the step is bound by reading values.
template <class T, int kDim>
__device__ inline void add_values(float (&x)[2][4], std::uint32_t values,
                                  float (&out)[kDim / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t weights[2][4];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      weights[part][i] = take_part<T>(x[i / 2][i % 2 * 2], x[i / 2][i % 2 * 2 + 1]);
    }
  }
  constexpr int kAtOnce = kDim > 128 ? 4 : 8;  // sums between two products that add to the same
#pragma unroll
  for (int n = 0; n < kDim / 8; n += kAtOnce) {
    std::uint32_t r[kAtOnce / 2][4];
#pragma unroll
    for (int i = 0; i < kAtOnce; i += 2) {
      const int chunk = (n + i) % 8 + (lane >> 4);
      ldmatrix4<true>(values + n / 8 * kStepTile + chunk_offset(lane & 15, chunk), r[i / 2]);
    }
#pragma unroll
    for (int i = 0; i < 2 * kAtOnce; ++i) {
      const int at = i % kAtOnce;
      mma_16_8_16<T>(out[n + at], weights[i / kAtOnce], r[at / 2][at % 2 * 2],
                     r[at / 2][at % 2 * 2 + 1]);
    }
  }
}

template <class T>
__device__ inline float2 floats_of(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  } else {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  }
}

// The same without the values of hidden keys, which 0 does not cancel where they are not finite. `seen` has
// a bit for each of a thread's four keys of either row.
template <class T, int kDim>
__device__ inline void add_seen_values(const float (&x)[2][4], const std::uint32_t (&seen)[2],
                                       std::uint32_t values, float (&out)[kDim / 8][4]) {
  const int column = static_cast<int>(threadIdx.x) % 4;
#pragma unroll 1
  for (int owner = 0; owner < 4; ++owner) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float weight[2];
      bool sees[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        weight[h] = __shfl_sync(~0u, x[j / 2][2 * h + j % 2], owner, 4);
        sees[h] = (__shfl_sync(~0u, seen[h], owner, 4) >> j & 1) != 0;
      }
      const int slot = slot_of_key(4 * owner + j);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        const float2 value = floats_of<T>(
            load_4(values + n / 8 * kStepTile + chunk_offset(slot, n % 8) + 4 * column));
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (!sees[h]) continue;
          out[n][2 * h] = fmaf(weight[h], value.x, out[n][2 * h]);
          out[n][2 * h + 1] = fmaf(weight[h], value.y, out[n][2 * h + 1]);
        }
      }
    }
  }
}

}  // namespace posenc::cuda
