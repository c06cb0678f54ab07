// The gradient of a Toeplitz table: sums along the diagonals of a tile, always in the same order.
//
// A thread's two rows of sixteen keys have 24 distances. The rows of a warp's eight lane groups are offset by one distance
// from group to group. Three shuffles, each adding the partner's half shifted by 1, 2 and 4, leave six sums per thread.
// They are written to one of four strips per warp in shared memory such that no two threads share an entry, and the
// strips of the warpgroup are added to its table.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

inline constexpr int kStrip = 84;  // distances of a warp: 79 and what hangs over
inline constexpr int kStripsBytes = 2 * 16 * kStrip * 4;  // of a warpgroup, for two tiles in turn

class Diagonals {
 public:
  // `strips` were zeroed; `table` is where distance 0 of the warpgroup's own sums is, and `low`, `high`
  // bound the distances that there are.
  __device__ Diagonals(float* strips, const ThreadRows& mine) : strips_(strips), lane_(mine.lane) {}

  // `distance`: that of the warpgroup's first row to the tile's first key.
  __device__ void add(const Accum& x, int group, int turn, float* table, std::int64_t low,
                      std::int64_t high, std::int64_t distance) {
    float a[24];
    combine_rows(x, a);
    float b[13];
    first_exchange(a, b);
    float c[8];
    second_exchange(b, c);
    const int g = lane_ / 4;
    const int at = 48 + 13 * (g & 1) + 8 * (g >> 1 & 1) + 6 * (g >> 2) - 16 * (lane_ % 4);
    float* own = strips_ + turn * 16 * kStrip +
                 (threadIdx.x / 32 % 4 * 4 + 2 * (g & 1) + (g >> 1 & 1)) * kStrip + at;
    third_exchange(c, own);
    group_sync(group);
    collect(turn, table, low, high, distance);
  }

 private:
  // Entry u is distance (lane group) - 16 (lane % 4) + u - 15.
  __device__ static void combine_rows(const Accum& x, float (&a)[24]) {
#pragma unroll
    for (int u = 0; u < 24; ++u) {
      a[u] = 0.0f;
      const int j0 = 15 - u;
      const int j1 = 23 - u;
      if (j0 >= 0) a[u] += x[j0 / 2][j0 % 2];
      if (j1 < 16) a[u] += x[j1 / 2][2 + j1 % 2];
    }
  }
  __device__ void first_exchange(const float (&a)[24], float (&b)[13]) const {
    const bool odd = (lane_ >> 2 & 1) != 0;
#pragma unroll
    for (int i = 0; i < 13; ++i) {
      const float of_odd = i > 0 ? a[i - 1] : 0.0f;
      const float of_even = i < 11 ? a[13 + i] : 0.0f;
      const float own_odd = i < 12 ? a[12 + i] : 0.0f;
      b[i] = (odd ? own_odd : a[i]) + __shfl_xor_sync(~0u, odd ? of_odd : of_even, 4);
    }
  }
  __device__ void second_exchange(const float (&b)[13], float (&c)[8]) const {
    const bool odd = (lane_ >> 3 & 1) != 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float of_odd = i >= 2 ? b[i - 2] : 0.0f;
      const float of_even = i < 5 ? b[8 + i] : 0.0f;
      const float own_odd = i < 7 ? b[6 + i] : 0.0f;
      c[i] = (odd ? own_odd : b[i]) + __shfl_xor_sync(~0u, odd ? of_odd : of_even, 8);
    }
  }
  __device__ void third_exchange(const float (&c)[8], float* own) const {
    const bool odd = lane_ >> 4 != 0;
    float received[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      received[i] = __shfl_xor_sync(~0u, odd ? c[i] : c[6 + i], 16);
    }
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      float sum = odd ? c[i + 2] : c[i];
      if (i < 2 && odd) sum += received[i];
      if (i >= 4 && !odd) sum += received[i - 4];
      own[i] = sum;
    }
  }
  // Entry 0 of a strip is distance -63 of its warp's first row.
  __device__ void collect(int turn, float* table, std::int64_t low, std::int64_t high,
                          std::int64_t distance) const {
    const int x = threadIdx.x % 128;  // distance x - 63 of the warpgroup
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      const int at = x - 16 * warp;
      if (at < 0 || at >= 79) continue;
      const float* strip = strips_ + (turn * 16 + warp * 4) * kStrip + at;
      sum += (strip[0] + strip[kStrip]) + (strip[2 * kStrip] + strip[3 * kStrip]);
    }
    const std::int64_t at = distance + x - 63;
    if (x < 127 && at >= low && at < high) table[at] += sum;
  }

  float* strips_;
  int lane_;
};

}  // namespace posenc::cuda
