// Shared by the backward kernels for keys: the tiles of queries that a block of keys loops over, the layout of CoPE's
// sums, and the epilogue that writes gradients.
#pragma once

#include "kernels/cuda/device/backward_space.cuh"
#include "kernels/cuda/device/gradients.cuh"
#include "kernels/cuda/device/marks.cuh"

namespace posenc::cuda {

// The tiles of queries of one block of keys, for every query head that reads its key head: head by head.
struct KeyWalk {
  __device__ KeyWalk(const AttentionBackwardParams& backward, const BackwardSpace& backward_space)
      : KeyWalk(backward, backward_space, static_cast<int>(blockIdx.z),
                static_cast<int>(blockIdx.y)) {}
  __device__ KeyWalk(const AttentionBackwardParams& backward, const BackwardSpace& backward_space,
                     int sequence, int key_head)
      : b(backward),
        p(backward.forward),
        space(backward_space),
        s(sequence_of(p, sequence)),
        kv_head(key_head),
        heads(p.heads / p.kv_heads) {}
  __device__ void begin(int first, int keys) {
    first_key = first;
    tiles = first < s.keys ? query_tiles(s, first, first + keys - 1, space.first_query,
                                         space.first_query + space.chunk)
                           : Range{0, 0};
    if (p.tokens.end_kept != nullptr && tiles.first < tiles.end) leave_out(first + keys - 1);
  }
  // Whether there is neither something to add nor something to write.
  __device__ bool is_idle() const {
    return first_key >= s.keys ||
           (tiles.end == tiles.first && !space.first_chunk && !space.last_chunk);
  }
  __device__ int count() const { return heads * (tiles.end - tiles.first); }
  __device__ int tile_of(int i) const { return tiles.first + i % (tiles.end - tiles.first); }
  __device__ int head_of(int i) const { return kv_head * heads + i / (tiles.end - tiles.first); }
  // Whether some query of the tile sees some of the 64 keys from `key` on.
  __device__ bool sees(int tile, int key) const {
    const int last = min(tile * 64 + 63, s.queries - 1);
    return key < s.keys && s.highest(last) >= key && s.lowest(tile * 64) <= key + 63;
  }

  // Tiles of the walk of which some query sees some of the 64 keys from `key` on, and those of them of
  // which all see all.
  __device__ Range seen_by(int key) const {
    const Range seen = key < s.keys ? query_tiles(s, key, key + 63, space.first_query,
                                                  space.first_query + space.chunk)
                                    : Range{0, 0};
    return seen.first < seen.end ? seen : Range{tiles.first, tiles.first};
  }
  __device__ Range seen_whole(int key, const Range& seen) const {
    const int shift = s.keys - s.queries;
    const int first = (max(key + 63 - s.right - shift, 0) + 63) / 64;
    const int last = key + s.left - shift - 63;  // query that may begin a tile
    if (key + 64 > s.keys || last < 0) return {seen.end, seen.end};
    const int from = min(max(first, seen.first), seen.end);
    return {from, max(min(last / 64 + 1, seen.end), from)};
  }

  __device__ std::int64_t sequence_head(int head) const {
    return static_cast<std::int64_t>(s.index) * p.heads + head;
  }
  __device__ const float* logits_of(int tile, int head) const {
    return space.logits + (sequence_head(head) * space.chunk + tile * 64 - space.first_query) *
                              logit_stride(p.cope.npos_max);
  }
  // Of a tile's first query, at the tile of keys that `key` is in.
  __device__ std::int64_t sums_at(int tile, int head, int key) const {
    return (sequence_head(head) * space.key_tiles + key / 64) * space.chunk + tile * 64 -
           space.first_query;
  }
  // The first tile of keys that a tile of queries counts.
  __device__ int first_counting(int tile, int head) const {
    return space
        .first_counting[sequence_head(head) * (space.chunk / 64) + tile - space.first_query / 64];
  }
  __device__ CopeScores cope_scores() const {
    return {p.scale, p.cope.gates_see_bias,
            static_cast<std::uint32_t>(p.cope.npos_max - 1) << kPositionBits};
  }

  // The own keys or values, as tiles of 64 rows: [channels / 64][kGroups].
  template <class T, int kDim, int kGroups, bool kPermuted, int kThreads>
  __device__ void load_own(const Tensor4& x, std::uint32_t to, int thread) const {
    const RowsOf<T> rows = rows_of<T>(x, s.batch, kv_head, s.first_key);
    for (int group = 0; group < kGroups; ++group) {
      for (int d = 0; d < kDim / 64; ++d) {
        const RowsOf<T> part{rows.data + 64 * d, rows.stride};
        load_tile<64, 64, kPermuted, kThreads>(to + (d * kGroups + group) * kTileBytes, part,
                                               first_key + 64 * group, s.keys,
                                               min(p.head_dim - 64 * d, 64), thread);
      }
    }
  }

  // Marks a warpgroup's keys; whether they are computed again, which then stores them: sums of chunks
  // before must stay what they are. `share` of `shares` of the channels.
  template <int kOutParts>
  __device__ bool is_suspect(int key, int group, const Accum (&dk)[kOutParts],
                             const Accum (&dv)[kOutParts], int share, int shares) const {
    const bool suspect = any_of_group(!all_finite(dk) || !all_finite(dv), group);
    if (key < s.keys && threadIdx.x % 128 == 0) {
      const std::int64_t tile =
          (static_cast<std::int64_t>(s.index) * p.kv_heads + kv_head) * space.key_tiles + key / 64;
      space.key_marks[tile * shares + share] = suspect ? 1 : 0;
    }
    return suspect;
  }

  // Of the keys of the sequence.
  __device__ float* token_gradients(int head) const {
    return b.dtoken_keys + (static_cast<std::int64_t>(s.batch) * p.heads + head) * p.keys +
           s.first_key;
  }

  // The thread's channels, from 64 first_part on, of one key. Adds what chunks before have summed; the
  // last chunk writes elements.
  template <class T, int kOutParts>
  __device__ void store(const Tensor4& to, float* sums, int key, const Accum (&from)[kOutParts],
                        float scale, int h, int column, int first_part = 0) const {
    if (key >= s.keys) return;
    T* row = static_cast<T*>(to.data) + s.batch * to.batch_stride + kv_head * to.head_stride +
             (s.first_key + key) * to.token_stride;
    float* sum = sums + ((static_cast<std::int64_t>(s.batch) * p.kv_heads + kv_head) * p.keys +
                         s.first_key + key) *
                            p.head_dim;
#pragma unroll
    for (int i = 0; i < kOutParts * 8; ++i) {
      const int channel = 64 * first_part + 8 * i + 2 * column;
      if (channel >= p.head_dim) continue;
      float2 value = {from[i / 8][i % 8][2 * h] * scale, from[i / 8][i % 8][2 * h + 1] * scale};
      auto* kept = reinterpret_cast<float2*>(sum + channel);
      if (!space.first_chunk) {
        value.x += kept->x;
        value.y += kept->y;
      }
      if (space.last_chunk) {
        store_pair(row + channel, value.x, value.y);
      } else {
        *kept = value;
      }
    }
  }

  // Tiles of queries that keep none of the keys up to `last`, in any of the heads.
  __device__ void leave_out(int last) {
    const int tile = min(last, s.keys - 1) / kTile;
    int end = 0;
    for (int head = kv_head * heads; head < (kv_head + 1) * heads; ++head) {
      end = max(end, p.tokens.end_kept[sequence_head(head) * p.tokens.key_tiles + tile]);
    }
    tiles.end = max(min(tiles.end, end), tiles.first);
  }

  const AttentionBackwardParams& b;
  const AttentionParams& p;
  const BackwardSpace& space;
  Sequence s;
  int kv_head;
  int heads;  // that read this key head
  int first_key = 0;
  Range tiles{0, 0};
};

}  // namespace posenc::cuda
