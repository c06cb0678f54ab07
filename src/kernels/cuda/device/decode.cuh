// One split of one key head: scores, softmax within the split, and the weighted values.
#pragma once

#include <math_constants.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/elements.cuh"

namespace posenc::cuda {

inline constexpr int kDecodeThreads = 256;
inline constexpr int kDecodeWarps = kDecodeThreads / 32;
inline constexpr int kSplitKeys = 512;   // at most
inline constexpr int kDecodeVector = 8;  // channels of 16 bytes

// Keys whose loads a thread has under way at once: fewer where more rows need registers.
template <int kRows>
inline constexpr int kKeysInFlight = kRows == 1   ? 8
                                     : kRows == 4 ? 4
                                                  : 2;
// Blocks that a multiprocessor shall hold.
template <int kRows>
inline constexpr int kDecodeBlocks = kRows == 1   ? 4
                                     : kRows == 4 ? 3
                                                  : 2;

enum class DecodePhase { kAll, kScores, kWeights };

struct DecodeParams {
  AttentionParams a;
  int split_keys = 0;
  int splits = 0;
  float* scores = nullptr;     // [B * H * Tq][keys], with CoPE
  float* gate_sums = nullptr;  // [B * H * Tq][splits], with CoPE
  float* parts = nullptr;      // [B * H * Tq][splits][channels]
  float2* softmax = nullptr;   // [B * H * Tq][splits]: maximum and sum
};

// Rows of a block: the queries of the heads that share a key head, kRows at a time.
struct DecodeRow {
  int head;
  int query;
  bool valid;
};

__device__ __forceinline__ DecodeRow decode_row(const DecodeParams& p, int row) {
  const int group = p.a.heads / p.a.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y) % p.a.kv_heads;
  return {kv_head * group + row / p.a.queries, row % p.a.queries, row < group * p.a.queries};
}
__device__ __forceinline__ std::int64_t row_index(const DecodeParams& p, const DecodeRow& row) {
  const std::int64_t batch = blockIdx.y / p.a.kv_heads;
  return (batch * p.a.heads + row.head) * p.a.queries + row.query;
}
template <class T>
__device__ __forceinline__ const T* row_of(const Tensor4& x, std::int64_t batch, std::int64_t head,
                                           std::int64_t token) {
  return static_cast<const T*>(x.data) + batch * x.batch_stride + head * x.head_stride +
         token * x.token_stride;
}

// Sums of kCount values over kLanes neighbouring threads, each thread left with a share of them: half of
// the values change hands at each step, so that few are exchanged. Returns the index of the first value
// that this thread holds; kCount / kLanes of them, or one that kLanes / kCount threads share.
template <int kLanes, int kCount>
__device__ __forceinline__ int sum_and_share(float (&values)[kCount]) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  int first = 0;
  int count = kCount;
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    if (count == 1) {
      values[0] += __shfl_xor_sync(0xffffffffu, values[0], offset);
      continue;
    }
    count /= 2;
    const bool upper = (lane & offset) != 0;
    first += upper ? count : 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      if (i >= count) break;
      const float given = upper ? values[i] : values[i + count];
      const float kept = upper ? values[i + count] : values[i];
      values[i] = kept + __shfl_xor_sync(0xffffffffu, given, offset);
    }
  }
  return first;
}

// <q, k> of the split's keys, to scores [kSplitKeys][kRows].
template <class T, int kRows, int kLanes>
__device__ void split_scores(const DecodeParams& p, int first_row, int first_key, int count,
                             float* scores) {
  constexpr int kKeys = kKeysInFlight<kRows>;
  constexpr int kSums = kRows * kKeys;
  constexpr int kStep = kDecodeThreads / kLanes;
  const std::int64_t batch = blockIdx.y / p.a.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y) % p.a.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int at = static_cast<int>(threadIdx.x) / kLanes;
  const int channel = lane * kDecodeVector;
  const bool active = channel < p.a.head_dim;
  float q[kRows][kDecodeVector] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const DecodeRow row = decode_row(p, first_row + r);
    if (!row.valid || !active) continue;
    const auto x =
        load_elements<T, kDecodeVector>(row_of<T>(p.a.q, batch, row.head, row.query) + channel);
#pragma unroll
    for (int i = 0; i < kDecodeVector; ++i) q[r][i] = to_float(x.at[i]) * p.a.scale;
  }
  const T* keys = row_of<T>(p.a.k, batch, kv_head, first_key) + channel;
  for (int j = at; j - at < count; j += kKeys * kStep) {  // whole warps: shuffles follow
    Elements<T, kDecodeVector> k[kKeys];
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      // A key past the end is read as the last one, and its sums are not written.
      const int key = min(j + u * kStep, count - 1);
      if (active) k[u] = load_stream<T, kDecodeVector>(keys + key * p.a.k.token_stride);
    }
    float sums[kSums];
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < kDecodeVector; ++i) sum += q[r][i] * to_float(k[u].at[i]);
        sums[u * kRows + r] = active ? sum : 0.0f;
      }
    }
    const int first = sum_and_share<kLanes>(sums);
    constexpr int kHeld = kSums > kLanes ? kSums / kLanes : 1;
    constexpr int kSharing = kSums < kLanes ? kLanes / kSums : 1;
    if (lane % kSharing != 0) continue;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int key = j + (first + i) / kRows * kStep;
      if (key < count) scores[key * kRows + (first + i) % kRows] = sums[i];
    }
  }
}

// What a row sees, and the biases of it.
struct DecodeSight {
  __device__ DecodeSight(const DecodeParams& p, const DecodeRow& row)
      : a(p.a), place(row.query + p.a.keys - p.a.queries) {
    const std::int64_t batch = blockIdx.y / p.a.kv_heads;
    if (a.key_mask != nullptr) mask = a.key_mask + batch * a.keys;
    if (a.toeplitz.table != nullptr) table = a.toeplitz.table + row.head * a.toeplitz.head_stride;
  }
  __device__ bool sees(int key) const {
    if (a.window_left >= 0 && place - key > a.window_left) return false;
    if (a.window_right >= 0 && key - place > a.window_right) return false;
    return mask == nullptr || mask[key] != 0;
  }
  __device__ float bias(int key) const {
    if (table == nullptr) return 0.0f;
    const std::int64_t at = a.toeplitz.zero + place - key;
    return at >= 0 && at < a.toeplitz.span ? __ldg(table + at) : 0.0f;
  }

  const AttentionParams& a;
  std::int64_t place;
  const std::uint8_t* mask = nullptr;
  const float* table = nullptr;
};

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

__device__ __forceinline__ float gate(const DecodeParams& p, const DecodeSight& sight, float score,
                                      int key) {
  if (!sight.sees(key)) return 0.0f;
  return sigmoid(p.a.cope.gates_see_bias ? score + sight.bias(key) : score);
}

// The position logit of a row at a position; `table` is the row's own, or its slope.
__device__ __forceinline__ float position_logit(const CopeTable& cope, const float* table,
                                                float position) {
  const auto last = static_cast<float>(cope.npos_max - 1);
  const float bounded = position < last ? position : last;  // NaN must not be an index
  if (cope.slopes != nullptr) return table[0] * bounded;
  const int low = static_cast<int>(bounded);
  const float fraction = bounded - static_cast<float>(low);
  return table[low] + fraction * (table[min(low + 1, cope.npos_max - 1)] - table[low]);
}

// z[n] = logit_scale <plain q, pos_emb[:, n]> of a block's rows, or the slopes.
template <class T, int kRows>
__device__ void fill_position_tables(const DecodeParams& p, int first_row, float* tables) {
  const CopeTable& cope = p.a.cope;
  const std::int64_t batch = blockIdx.y / p.a.kv_heads;
  const Tensor4& plain = cope.plain_q.data != nullptr ? cope.plain_q : p.a.q;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * cope.npos_max; i += kDecodeThreads) {
    const int r = i / cope.npos_max;
    const int n = i % cope.npos_max;
    const DecodeRow row = decode_row(p, first_row + r);
    if (!row.valid) continue;
    float sum = 0.0f;
    if (cope.slopes != nullptr) {
      sum = cope.slopes[row.head];
    } else {
      const T* q = row_of<T>(plain, batch, row.head, row.query);
      for (int c = 0; c < p.a.head_dim; ++c) {
        sum += to_float(q[c]) * __ldg(cope.pos_emb + c * cope.npos_max + n);
      }
    }
    tables[r * cope.npos_max + n] = sum * cope.logit_scale;
  }
}

// Adds position logits to a row's scores, from the last key down; `sum` counts the gates behind.
template <int kRows>
__device__ void add_positions(const DecodeParams& p, const DecodeSight& sight, int first_key,
                              int count, float sum, const float* table, float* scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int base = (count - 1) / 32 * 32; base >= 0; base -= 32) {
    const int j = base + lane;
    float gates = j < count ? gate(p, sight, scores[j * kRows], first_key + j) : 0.0f;
    for (int offset = 1; offset < 32; offset *= 2) {  // sums from this lane to the last
      const float other = __shfl_down_sync(0xffffffffu, gates, offset);
      if (lane + offset < 32) gates += other;
    }
    if (j < count) scores[j * kRows] += position_logit(p.a.cope, table, sum + gates);
    sum += __shfl_sync(0xffffffffu, gates, 0);
  }
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  }
  return x;
}

// Scores of one row to weights exp(s - maximum), in place, by one warp.
template <int kRows>
__device__ float2 softmax_row(const DecodeSight& sight, int first_key, int count, float* scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float largest = -CUDART_INF_F;
  for (int j = lane; j < count; j += 32) {
    const bool seen = sight.sees(first_key + j);
    const float score = seen ? scores[j * kRows] + sight.bias(first_key + j) : -CUDART_INF_F;
    scores[j * kRows] = score;
    largest = fmaxf(largest, score);
  }
  largest = warp_max(largest);
  float sum = 0.0f;
  for (int j = lane; j < count; j += 32) {
    const float weight = largest == -CUDART_INF_F ? 0.0f : __expf(scores[j * kRows] - largest);
    scores[j * kRows] = weight;
    sum += weight;
  }
  return {largest, warp_sum(sum)};
}

// Adds up the threads of a block, warp by warp, so that the order is always the same.
template <int kRows, int kLanes>
__device__ void sum_block(const DecodeParams& p, const float (&acc)[kRows][kDecodeVector],
                          float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int channel = lane * kDecodeVector;
  for (int w = 0; w < kDecodeWarps; ++w) {
    if (warp == w && lane < kLanes && channel < p.a.head_dim) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float* to = sums + r * p.a.head_dim + channel;
#pragma unroll
        for (int i = 0; i < kDecodeVector; ++i) to[i] = w == 0 ? acc[r][i] : to[i] + acc[r][i];
      }
    }
    __syncthreads();
  }
}

// SUM_j weights[j] v_j of the split.
template <class T, int kRows, int kLanes>
__device__ void weigh_values(const DecodeParams& p, int first_row, int first_key, int count,
                             const float* weights, float* sums) {
  constexpr int kKeys = kKeysInFlight<kRows>;
  constexpr int kStep = kDecodeThreads / kLanes;
  const std::int64_t batch = blockIdx.y / p.a.kv_heads;
  const int kv_head = static_cast<int>(blockIdx.y) % p.a.kv_heads;
  const int at = static_cast<int>(threadIdx.x) / kLanes;
  const int channel = static_cast<int>(threadIdx.x) % kLanes * kDecodeVector;
  const bool active = channel < p.a.head_dim;
  float acc[kRows][kDecodeVector] = {};
  const T* values = row_of<T>(p.a.v, batch, kv_head, first_key) + channel;
  for (int j = at; active && j < count; j += kKeys * kStep) {
    Elements<T, kDecodeVector> v[kKeys];
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      const int key = min(j + u * kStep, count - 1);
      v[u] = load_stream<T, kDecodeVector>(values + key * p.a.v.token_stride);
    }
#pragma unroll
    for (int u = 0; u < kKeys; ++u) {
      if (j + u * kStep >= count) break;
      float weight[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) weight[r] = weights[(j + u * kStep) * kRows + r];
#pragma unroll
      for (int i = 0; i < kDecodeVector; ++i) {
        const float value = to_float(v[u].at[i]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) acc[r][i] += weight[r] * value;
      }
    }
  }
#pragma unroll
  for (int offset = kLanes; offset < 32; offset *= 2) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int i = 0; i < kDecodeVector; ++i) {
        acc[r][i] += __shfl_xor_sync(0xffffffffu, acc[r][i], offset);
      }
    }
  }
  sum_block<kRows, kLanes>(p, acc, sums);
  for (int i = static_cast<int>(threadIdx.x); i < kRows * p.a.head_dim; i += kDecodeThreads) {
    const DecodeRow row = decode_row(p, first_row + i / p.a.head_dim);
    if (!row.valid) continue;
    const std::int64_t part = row_index(p, row) * p.splits + blockIdx.x;
    p.parts[part * p.a.head_dim + i % p.a.head_dim] = sums[i];
  }
}

}  // namespace posenc::cuda
