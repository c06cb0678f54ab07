// Which sequence, rows and keys a block of threads works on, and which keys a row sees.
#pragma once

#include "kernels/cuda/device/tile_io.cuh"

namespace posenc::cuda {

struct Sequence {
  int index;  // of the segment, or of the batch entry
  int batch;
  int first_query;
  int queries;
  int first_key;
  int keys;
  int left;  // keys seen: place - left .. place + right
  int right;

  __device__ int place(int query) const { return query + keys - queries; }
  __device__ int lowest(int query) const { return max(0, place(query) - left); }
  __device__ int highest(int query) const { return min(keys - 1, place(query) + right); }
};

__device__ inline int bounded(std::int64_t window) {
  constexpr std::int64_t kUnbounded = 1 << 29;
  return static_cast<int>(window < 0 || window > kUnbounded ? kUnbounded : window);
}

__device__ inline Sequence sequence_of(const AttentionParams& p, int index) {
  Sequence s{
      index, index, 0, p.queries, 0, p.keys, bounded(p.window_left), bounded(p.window_right)};
  if (p.breaks_sticks) s.right = -1;  // a query's own token is hidden, and what comes after it
  if (p.segments != nullptr) {
    const SegmentEntry entry = p.segments[index];
    s.batch = entry.batch;
    s.first_query = entry.first_query;
    s.queries = entry.queries;
    s.first_key = entry.first_key;
    s.keys = entry.keys;
  }
  return s;
}

// Tiles begin at multiples of 1024 bytes.
__device__ inline std::uint8_t* aligned_smem(std::uint8_t* raw) {
  return raw + (1024 - smem_address(raw) % 1024) % 1024;
}

__device__ inline const std::uint8_t* key_mask_of(const AttentionParams& p, const Sequence& s) {
  if (p.key_mask == nullptr) return nullptr;
  return p.key_mask + static_cast<std::int64_t>(s.batch) * p.keys + s.first_key;
}

// Calls f(block) for this slot's share of the blocks of rows: long rows first, and each slot as many of
// them as of short ones.
template <class F>
__device__ inline void for_each_block(int blocks, F&& f) {
  const int slots = static_cast<int>(gridDim.x);
  const int slot = static_cast<int>(blockIdx.x);
#pragma unroll 1
  for (int turn = 0; turn * slots < blocks; ++turn) {
    const int index = turn * slots + (turn % 2 == 0 ? slot : slots - 1 - slot);
    if (index < blocks) f(blocks - 1 - index);
  }
}

struct Range {
  int first;
  int end;
};

// Tiles of keys that the queries [first, last] see some key of.
__device__ inline Range key_tiles(const Sequence& s, int first, int last) {
  last = min(last, s.queries - 1);
  const int low = s.lowest(first);
  const int high = last < first ? -1 : s.highest(last);
  if (high < low) return {0, 0};
  return {low / kTile, high / kTile + 1};
}

// The same without the tiles that a term per token leaves out; `first` begins a tile of queries.
__device__ inline int first_kept_key(const AttentionParams& p, const Sequence& s, int head,
                                     int first) {
  if (p.tokens.first_kept == nullptr) return 0;
  const std::int64_t row = static_cast<std::int64_t>(s.index) * p.heads + head;
  const int tile = min(first, s.queries - 1) / kTile;
  return kTile * p.tokens.first_kept[row * p.tokens.query_tiles + tile];
}
__device__ inline Range kept_key_tiles(const AttentionParams& p, const Sequence& s, int head,
                                       int first, int last) {
  Range tiles = key_tiles(s, first, last);
  if (tiles.first < tiles.end) {
    tiles.first = min(max(tiles.first, first_kept_key(p, s, head, first) / kTile), tiles.end);
  }
  return tiles;
}

// Tiles of queries from `first` to before `end` that see some key of [low, high].
__device__ inline Range query_tiles(const Sequence& s, int low, int high, int first, int end) {
  high = min(high, s.keys - 1);
  const int shift = s.keys - s.queries;
  const int from = max(first, low - s.right - shift);  // its highest key reaches low
  const int to = min(min(end, s.queries), high + s.left - shift + 1);
  if (to <= from || high < low) return {0, 0};
  return {from / kTile, (to + kTile - 1) / kTile};
}

// The two rows of the accumulators that a thread holds, as queries of the sequence.
struct ThreadRows {
  int lane;
  int column;  // lane % 4: which sixteen keys of a tile
  int row[2];  // in the 64 rows of the warpgroup
  __device__ explicit ThreadRows() {
    lane = threadIdx.x % 32;
    column = lane % 4;
    row[0] = threadIdx.x / 32 % 4 * 16 + lane / 4;
    row[1] = row[0] + 8;
  }
};

// The sum over the four lanes of a row, in each of them.
__device__ inline float row_sum(float own) {
  const float two = own + __shfl_xor_sync(~0u, own, 1);
  return two + __shfl_xor_sync(~0u, two, 2);
}

// An accumulator as a tile of 64 rows.
template <class T>
__device__ inline void store_tile(std::uint8_t* to, const ThreadRows& mine, const Accum& x) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const std::uint32_t at = chunk_offset(mine.row[h], n) + 4 * mine.column;
      *reinterpret_cast<std::uint32_t*>(to + at) = pack<T>(x[n][2 * h], x[n][2 * h + 1]);
    }
  }
}

// Bits of the sixteen keys from `key` on that a query sees.
__device__ inline std::uint32_t visible_bits(const Sequence& s, int query, int key) {
  const int low = max(s.lowest(query) - key, 0);
  const int high = min(s.highest(query) - key, 15);
  return high < low ? 0u : (0xffffu << low) & (0xffffu >> (15 - high));
}
template <int kKeys = 16>
__device__ inline std::uint32_t real_bits(const std::uint8_t* key_mask, int key, int keys) {
  std::uint32_t bits = 0;
  for (int j = 0; j < kKeys; ++j) {
    if (key + j < keys && key_mask[key + j] != 0) bits |= 1u << j;
  }
  return bits;
}

// Whether all of a warpgroup's rows see all keys of a tile; `query` and `key` are the first of both.
__device__ inline bool sees_all(const Sequence& s, const std::uint8_t* key_mask, int query,
                                int key) {
  return key_mask == nullptr && key >= s.lowest(query + kTile - 1) &&
         key + kTile - 1 <= s.highest(query);
}

// Which of a tile's keys the thread's two rows see.
struct Seen {
  bool all;  // of the warpgroup's rows and keys
  std::uint32_t bits[2];
};
__device__ inline Seen seen_of(const Sequence& s, const std::uint8_t* key_mask,
                               const ThreadRows& mine, int query, int key) {
  if (sees_all(s, key_mask, query, key)) return {true, {0xffffu, 0xffffu}};
  const int own = key + 16 * mine.column;
  const std::uint32_t real = key_mask == nullptr ? 0xffffu : real_bits(key_mask, own, s.keys);
  return {false,
          {real & visible_bits(s, query + mine.row[0], own),
           real & visible_bits(s, query + mine.row[1], own)}};
}
// Replaces what belongs to hidden pairs.
__device__ inline void replace_hidden(const Seen& seen, float by, Accum& x) {
  if (seen.all) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      if ((seen.bits[h] >> j & 1) == 0) x[j / 2][2 * h + j % 2] = by;
    }
  }
}
// Scores: -infinity has gate 0 and weight 0.
__device__ inline void hide(const Sequence& s, const std::uint8_t* key_mask, const ThreadRows& mine,
                            int query, int key, Accum& x) {
  replace_hidden(seen_of(s, key_mask, mine, query, key), -INFINITY, x);
}

// The same where keys are in their own order and no mask hides single ones: columns 8 n + 2 column + e.
__device__ inline void hide_in_order(const Sequence& s, const ThreadRows& mine, int query, int key,
                                     Accum& x, float by = -INFINITY) {
  const int from = key + 2 * mine.column;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int low = s.lowest(query + mine.row[h]) - from;
    const int high = s.highest(query + mine.row[h]) - from;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const int column = j / 2 * 8 + j % 2;
      if (column < low || column > high) x[j / 2][2 * h + j % 2] = by;
    }
  }
}

// Whether a query of the sequence sees a key of it.
__device__ inline bool sees(const Sequence& s, const std::uint8_t* key_mask, int query, int key) {
  return query < s.queries && key >= s.lowest(query) && key <= s.highest(query) &&
         (key_mask == nullptr || key_mask[key] != 0);
}

// Philox4x32-10, as core/rng.
__device__ inline uint4 philox(uint4 counter, std::uint64_t seed) {
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = __umulhi(0xD2511F53u, counter.x);
    const std::uint32_t low0 = 0xD2511F53u * counter.x;
    const std::uint32_t high1 = __umulhi(0xCD9E8D57u, counter.z);
    const std::uint32_t low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ k0, low1, high0 ^ counter.w ^ k1, low0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// Bits of the sixteen keys from `key` on (an index into the tensor) that the dropout keeps.
__device__ inline std::uint32_t kept_bits(const AttentionParams& p, int batch, int head, int query,
                                          int key) {
  std::uint32_t bits = 0;
  const int shift = key & 3;
#pragma unroll 1
  for (int group = 0; group < (shift == 0 ? 4 : 5); ++group) {
    const uint4 words = philox(
        make_uint4(static_cast<std::uint32_t>(key / 4 + group), static_cast<std::uint32_t>(query),
                   static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(batch)),
        p.dropout_seed);
    const std::uint32_t t = p.dropout_threshold;
    const std::uint32_t four = (words.x >= t ? 1u : 0u) | (words.y >= t ? 2u : 0u) |
                               (words.z >= t ? 4u : 0u) | (words.w >= t ? 8u : 0u);
    bits |= group * 4 >= shift ? four << (group * 4 - shift) : four >> (shift - group * 4);
  }
  return bits;
}

}  // namespace posenc::cuda
