// Shared by the decode kernels: the assignment of rows and keys to blocks and warps. A block has one split of the keys of
// a key head and up to 16 rows, the queries of the heads that share the key head. Its warps have consecutive ranges of
// the split's keys and process 16 at a time.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/scores.cuh"

namespace posenc::cuda {

inline constexpr int kDecodeVector = 8;  // channels of 16 bytes
inline constexpr int kStepRows = 16;     // rows of a product
inline constexpr int kStepKeys = 16;     // keys of a warp's step

// With CoPE two launches go over the keys: scores first, weights and values then.
enum class DecodePhase { kAll, kScores, kWeights };

// Warps of a block, stages of a warp's ring, and blocks that a multiprocessor holds: some 100 KB are then
// under way on each, and there are warps enough to hide how long a step of one takes.
constexpr int decode_warps(int dim) { return dim > 128 ? 2 : 4; }
constexpr int decode_stages(int dim, DecodePhase phase) {
  if (dim <= 64) return 4;
  return phase == DecodePhase::kScores ? 3 : 2;
}
constexpr int decode_blocks(int dim, bool cope) { return cope && dim > 128 ? 4 : 3; }

struct DecodeParams {
  AttentionParams a;
  int first_key = 0;   // a multiple of kStepKeys; no row sees one before it
  int split_keys = 0;  // a multiple of the keys of a step of all warps
  int splits = 0;
  int row_groups = 0;         // of 16 rows that share a key head
  std::int64_t kept_row = 0;  // floats of a row of `scores`
  // By B * H * Tq, then:
  float* parts = nullptr;          // [splits][channels]
  float2* softmax = nullptr;       // [splits]: maximum and sum
  float* scores = nullptr;         // [kept_row] by key, with CoPE; -infinity where hidden
  float* logits = nullptr;         // [logit_stride], with CoPE
  std::uint32_t* gates = nullptr;  // [splits][warps]: sums of gates, with CoPE
};

struct DecodeRow {
  int head;
  int query;
  bool valid;
  std::int64_t index;  // in [B * H * Tq]
};

// Whether the length of a batch entry is one that its pages can have.
__device__ inline bool has_valid_length(const AttentionParams& p, int batch) {
  if (p.pages.lengths == nullptr) return true;
  const std::int64_t length = __ldg(p.pages.lengths + batch);
  return length >= 0 && length <= p.keys;
}
__device__ inline int keys_of_sequence(const AttentionParams& p, int batch) {
  if (p.pages.lengths == nullptr) return p.keys;
  return has_valid_length(p, batch) ? static_cast<int>(__ldg(p.pages.lengths + batch)) : 0;
}
__device__ inline Sequence decoded_sequence(const AttentionParams& p, int batch) {
  Sequence s = sequence_of(p, batch);
  s.keys = keys_of_sequence(p, batch);
  return s;
}

struct DecodeBlock {
  int first_row;  // of those that share the key head
  int split;
  int kv_head;
  int batch;
  int sequence_keys;  // of the batch entry

  // Neighbouring blocks have other rows of the same keys, then the keys after them.
  __device__ explicit DecodeBlock(const DecodeParams& p) {
    int rest = static_cast<int>(blockIdx.x);
    first_row = rest % p.row_groups * kStepRows;
    rest /= p.row_groups;
    split = rest % p.splits;
    rest /= p.splits;
    kv_head = rest % p.a.kv_heads;
    batch = rest / p.a.kv_heads;
    sequence_keys = keys_of_sequence(p.a, batch);
  }
  // Rows of the block.
  [[nodiscard]] __device__ int rows(const DecodeParams& p) const {
    return min(p.a.heads / p.a.kv_heads * p.a.queries - first_row, kStepRows);
  }
  [[nodiscard]] __device__ DecodeRow row(const DecodeParams& p, int r) const {
    const int group = p.a.heads / p.a.kv_heads;
    const int own = first_row + r;
    const int head = kv_head * group + own / p.a.queries;
    const int query = own % p.a.queries;
    const std::int64_t index =
        (static_cast<std::int64_t>(batch) * p.a.heads + head) * p.a.queries + query;
    return {head, query, own < group * p.a.queries, index};
  }
  // Keys of a warp of kWarps.
  template <int kWarps>
  [[nodiscard]] __device__ Range keys(const DecodeParams& p, int warp) const {
    const int share = p.split_keys / kWarps;
    const std::int64_t first =
        p.first_key + static_cast<std::int64_t>(split) * p.split_keys + warp * share;
    const std::int64_t end = min(first + share, static_cast<std::int64_t>(sequence_keys));
    return {static_cast<int>(min(max(first, first_seen(p)), end)), static_cast<int>(end)};
  }

 private:
  // The first step with a key in the window, where lengths differ and p.first_key is 0.
  [[nodiscard]] __device__ std::int64_t first_seen(const DecodeParams& p) const {
    if (p.a.pages.lengths == nullptr || p.a.window_left < 0) return 0;
    const std::int64_t lowest = sequence_keys - p.a.queries - p.a.window_left;
    return lowest > 0 ? lowest / kStepKeys * kStepKeys : 0;
  }
};

// The two rows whose scores a thread holds, 8 apart, and which four of a step's keys.
struct DecodeRows {
  int lane;
  int column;
  DecodeRow row[2];

  __device__ DecodeRows(const DecodeParams& p, const DecodeBlock& block) {
    lane = static_cast<int>(threadIdx.x) % 32;
    column = lane % 4;
    row[0] = block.row(p, lane / 4);
    row[1] = block.row(p, lane / 4 + 8);
  }
  [[nodiscard]] __device__ int key(int step_key) const { return step_key + 4 * column; }
};

}  // namespace posenc::cuda
