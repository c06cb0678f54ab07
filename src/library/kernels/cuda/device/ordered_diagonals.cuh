// The gradient of a Toeplitz table for keys in sequence order: sums along the diagonals of a tile, in a fixed order of
// additions.
//
// Rows r and r + 8 of a thread make nine pairs of distances; the four threads of these rows make 72, all
// different. They are written as one of 32 lines, zeros between them, and read along the distances: a
// thread's distance is at a fixed place of every line.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

class OrderedDiagonals {
  static constexpr int kLine = 136;   // from line to line: lines of a warp in other banks
  static constexpr int kBefore = 56;  // zeros before the first
  static constexpr int kLowest = 63;  // entry of distance 0, seen from the line's row

 public:
  static constexpr int kBytes = (kBefore + 32 * kLine) * 4;  // of a warpgroup

  __device__ OrderedDiagonals(float* lines, const ThreadRows& mine)
      : lines_(lines), line_(mine.row[0] / 16 * 8 + mine.row[0] % 8), column_(mine.column) {}

  // The lines were zeroed. x: gradients at the scores. `table` is where distance 0 of the warpgroup's
  // own sums is, `low` and `high` bound the distances that there are, `distance` is that of the first
  // row to the first key.
  __device__ void add(const Accum& x, int group, float* table, std::int64_t low, std::int64_t high,
                      std::int64_t distance) {
    const int thread = static_cast<int>(threadIdx.x % 128);
    const std::int64_t at = distance + thread - 64;
    const bool real = at >= low && at < high;
    group_sync(group);  // the lines of the tile before have been read
    const float before = real ? table[at] : 0.0f;
    write(x);
    group_sync(group);
    const float sum = read(thread - 64);
    if (real) table[at] = before + sum;
  }

 private:
  __device__ void write(const Accum& x) {
    auto* to =
        reinterpret_cast<float2*>(lines_ + kBefore + line_ * kLine + kLowest - 1 - 2 * column_);
#pragma unroll
    for (int m = -7; m <= 1; ++m) {  // 8 m is the distance of columns 8 n from row 8 h
      const int n = -m;              // of row r; of row r + 8 it is n + 1
      float2 pair = {0.0f, 0.0f};
      if (n >= 0) pair = {x[n][1], x[n][0]};
      if (n + 1 < 8) {
        pair.x += x[n + 1][3];
        pair.y += x[n + 1][2];
      }
      to[4 * m] = pair;
    }
  }
  __device__ float read(int distance) const {
    const float* from = lines_ + kBefore + kLowest + distance;
    float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int line = 0; line < 32; ++line) {
      part[line % 4] += from[line * kLine - (line / 8 * 16 + line % 8)];
    }
    return (part[0] + part[1]) + (part[2] + part[3]);
  }

  float* lines_;
  int line_;
  int column_;
};

}  // namespace posenc::cuda
