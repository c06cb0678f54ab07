// FIRE on the accumulators of a tile in warp-specialised kernels, with keys in sequence order. Along a row the bias is
// piecewise linear in u. If a warp's rows and keys need the pieces from `first` to `last`, it is
//   slope[first] u + intercept[last] + SUM over k in (first, last] of (slope[k] - slope[k-1]) max(u, bound[k])
// because intercepts differ by the change of slope times the bound. Most tiles need a single piece: one multiply-add per
// pair, and no divergent branch.
#pragma once

#include "kernels/cuda/device/fire.cuh"
#include "kernels/cuda/device/pair_window.cuh"

namespace posenc::cuda {

inline constexpr int kStreamSegments = 64;  // that sums in shared memory have room for

// Segments that a warp needs at a tile.
struct FireSpan {
  int first;
  int last;
};

__device__ inline float psi_at(const FireTable& fire, int distance) {
  const std::int64_t farthest = max(fire.zero, fire.span - 1 - fire.zero);
  const std::int64_t d = min(static_cast<std::int64_t>(distance), farthest);
  return fire.psi[fire.zero + d < fire.span ? fire.zero + d : fire.zero - d];
}

// A segment of one head's network; all but the bound over the scale of scores.
struct FireEntry {
  float bound;  // its lower one
  float slope;
  float intercept;
  float jump;  // of the slope, from the segment before
};
__device__ inline FireEntry fire_entry(const AttentionParams& p, int head, int segment) {
  const FireTable& fire = p.fire;
  const std::int64_t at = static_cast<std::int64_t>(head) * fire.segments + segment;
  const float slope = fire.slopes[at];
  const float before = segment > 0 ? fire.slopes[at - 1] : slope;
  const float unscaled = 1.0f / p.scale;
  return {fire.bounds[segment], slope * unscaled, fire.intercepts[at] * unscaled,
          (slope - before) * unscaled};
}
inline constexpr int kFireTableBytes = kStreamSegments * static_cast<int>(sizeof(FireEntry));
// By at least kStreamSegments threads, into shared memory. Bounds are those of all heads: a table that replaces another
// leaves them, which other warps may be reading.
__device__ inline void load_fire_table(const AttentionParams& p, int head, int thread,
                                       FireEntry* to, bool replaces = false) {
  if (thread >= p.fire.segments) return;
  const FireEntry entry = fire_entry(p, head, thread);
  if (!replaces) to[thread].bound = entry.bound;
  to[thread].slope = entry.slope;
  to[thread].intercept = entry.intercept;
  to[thread].jump = entry.jump;
}

// How one of those who copy finds a warp's segments, tile after tile. What is read from memory is needed only in
// find(), after copies have begun. psi rises with the distance, and scales of rows do not rise with their places.
class SpanFinder {
 public:
  __device__ void read_rows(const AttentionParams& p, const Sequence& s, int query, int rows) {
    const int last = min(query + rows - 1, s.queries - 1);
    first_place_ = s.place(min(query, last));
    last_place_ = s.place(last);
    largest_scale_ = row_scale_of(p, s, query);
    least_scale_ = row_scale_of(p, s, last);
  }
  __device__ void read_keys(const FireTable& fire, int key, int keys) {
    const int low = first_place_ - (key + keys - 1);
    const int high = last_place_ - key;
    nearest_ = psi_at(fire, max(max(low, -high), 0));
    farthest_ = psi_at(fire, max(high, -low));
  }
  __device__ FireSpan find(const FireEntry* table, int segments) {
    const float least = nearest_ * least_scale_;
    const float most = farthest_ * largest_scale_;
    while (segment_ > 0 && least < table[segment_].bound) --segment_;
    while (segment_ + 1 < segments && least >= table[segment_ + 1].bound) ++segment_;
    int last = segment_;
    while (last + 1 < segments && most >= table[last + 1].bound) ++last;
    return {segment_, last};
  }

 private:
  int first_place_ = 0;
  int last_place_ = 0;
  float largest_scale_ = 0.0f;
  float least_scale_ = 0.0f;
  float nearest_ = 0.0f;
  float farthest_ = 0.0f;
  int segment_ = 0;  // of the tile before
};

// Calls f(m, e, psi) for element [m][e] of the accumulators of the 64 keys from column 8 `first` on.
template <class F>
__device__ inline void for_each_pair(const float2* pairs, int first, F&& f) {
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const float2 own = pairs[4 * (first + m)];
    const float2 above = pairs[4 * (first + m) - 4];
    f(m, 0, own.x);
    f(m, 1, own.y);
    f(m, 2, above.x);
    f(m, 3, above.y);
  }
}

// Accumulators start as biases over the scale of scores.
__device__ inline void start_from_fire(const FireEntry* table, const FireSpan& span,
                                       const float (&scale)[2], const float2* psi, int first,
                                       Accum& x) {
  const float intercept = table[span.last].intercept;
  const float slopes[2] = {table[span.first].slope * scale[0], table[span.first].slope * scale[1]};
  for_each_pair(psi, first,
                [&](int m, int e, float at) { x[m][e] = fmaf(slopes[e / 2], at, intercept); });
#pragma unroll 1
  for (int k = span.first + 1; k <= span.last; ++k) {
    const FireEntry at_bend = table[k];
    const float jumps[2] = {at_bend.jump * scale[0], at_bend.jump * scale[1]};
    const float bends[2] = {__fdividef(at_bend.bound, scale[0]),
                            __fdividef(at_bend.bound, scale[1])};
    for_each_pair(psi, first, [&](int m, int e, float at) {
      x[m][e] = fmaf(jumps[e / 2], fmaxf(at, bends[e / 2]), x[m][e]);
    });
  }
}

// The same with keys as rows: x += biases less the intercept of span.last. `psi` are pairs of queries
// (QueryWindow), `scales` those of the thread's queries.
__device__ inline void add_fire_of_queries(const FireEntry* table, const FireSpan& span,
                                           const float2* scales, const float2* psi, Accum& x) {
  const auto each = [&](auto&& f) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 scale = scales[4 * n];
      const float2 own = psi[4 * n];
      const float2 below = psi[4 * n - 4];
      f(x[n][0], own.x * scale.x);
      f(x[n][1], own.y * scale.y);
      f(x[n][2], below.x * scale.x);
      f(x[n][3], below.y * scale.y);
    }
  };
  const float slope = table[span.first].slope;
  each([&](float& at, float u) { at = fmaf(slope, u, at); });
#pragma unroll 1
  for (int k = span.first + 1; k <= span.last; ++k) {
    const FireEntry bend = table[k];
    each([&](float& at, float u) { at = fmaf(bend.jump, fmaxf(u, bend.bound), at); });
  }
}

// What a warp's rows ask of the network: sums per segment, and per row those of db slope dpsi and db slope psi (both
// over the scale of scores until the end). The table and the warp's sums, [segments, 2] and zero at first, are given at
// every call: no register keeps them.
class FireGradient {
  // Of one segment and the thread's two rows.
  struct Sums {
    float psi[2] = {0.0f, 0.0f};
    float dpsi[2] = {0.0f, 0.0f};
    float one[2] = {0.0f, 0.0f};
  };

 public:
  __device__ void start_rows(const AttentionParams& p, const Sequence& s, int query,
                             const ThreadRows& mine) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      scale_[h] = row_scale_of(p, s, query + mine.row[h]);
      rows_[h] = {0.0f, 0.0f};
    }
  }
  [[nodiscard]] __device__ const float (&scales() const)[2] { return scale_; }
  // The gradients at the biases of a tile of 64 keys.
  __device__ void add(const FireEntry* table, float* sums, const FireSpan& span, const float2* psi,
                      const float2* dpsi, const Accum& db) {
    Sums left = sums_above<false>(0.0f, psi, dpsi, db);
#pragma unroll 1
    for (int k = span.first + 1; k <= span.last; ++k) {
      const Sums above = sums_above<true>(table[k].bound, psi, dpsi, db);
      add_to(table, sums, k - 1, left, above);
      left = above;
    }
    add_to(table, sums, span.last, left, Sums{});
  }
  __device__ void finish_rows(const FireEntry* table, float* sums, float scale, float2* to,
                              const ThreadRows& mine, int rows) {
    flush(table, sums);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float2 sum = {scale * row_sum(rows_[h].x), scale * row_sum(rows_[h].y)};
      if (mine.column == 0 && mine.row[h] < rows) to[mine.row[h]] = sum;
    }
  }

 private:
  __device__ static float over_warp(float x) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
  }

  // Of all pairs, or (kSome) of those whose u is at or beyond the bound.
  template <bool kSome>
  __device__ Sums sums_above(float bound, const float2* psi, const float2* dpsi,
                             const Accum& db) const {
    const float bends[2] = {__fdividef(bound, scale_[0]), __fdividef(bound, scale_[1])};
    Sums above;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int h = i % 2;
      const float2 at = psi[4 * (i / 2) - 4 * h];
      const float2 slope = dpsi[4 * (i / 2) - 4 * h];
      const float d[2] = {kSome && at.x < bends[h] ? 0.0f : db[i / 2][2 * h],
                          kSome && at.y < bends[h] ? 0.0f : db[i / 2][2 * h + 1]};
      above.psi[h] = fmaf(d[0], at.x, fmaf(d[1], at.y, above.psi[h]));
      above.dpsi[h] = fmaf(d[0], slope.x, fmaf(d[1], slope.y, above.dpsi[h]));
      above.one[h] += d[0] + d[1];
    }
    return above;
  }
  __device__ void add_to(const FireEntry* table, float* sums, int segment, const Sums& some,
                         const Sums& less) {
    if (segment != segment_) {
      flush(table, sums);
      segment_ = segment;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      own_.psi[h] += some.psi[h] - less.psi[h];
      own_.dpsi[h] += some.dpsi[h] - less.dpsi[h];
      own_.one[h] += some.one[h] - less.one[h];
    }
  }
  __device__ void flush(const FireEntry* table, float* sums) {
    if (segment_ < 0) return;
    const float slope = table[segment_].slope;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows_[h].x = fmaf(slope, own_.dpsi[h], rows_[h].x);
      rows_[h].y = fmaf(slope, own_.psi[h], rows_[h].y);
    }
    const float of_u = over_warp(fmaf(own_.psi[0], scale_[0], own_.psi[1] * scale_[1]));
    const float of_one = over_warp(own_.one[0] + own_.one[1]);
    if (threadIdx.x % 32 == 0) {
      sums[2 * segment_] += of_u;
      sums[2 * segment_ + 1] += of_one;
    }
    own_ = Sums{};
    segment_ = -1;
  }

  float scale_[2] = {0.0f, 0.0f};
  int segment_ = -1;  // that own_ is of; -1: none yet
  Sums own_;
  float2 rows_[2];
};

}  // namespace posenc::cuda
