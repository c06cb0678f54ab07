// Queries times distances at a tile of scores. Rows have a table z of position logits, factor u . table[:, entry], in
// device memory where a block owns the rows; a block that owns keys computes the distances of a tile (general_key.cuh).
#pragma once

#include "kernels/cuda/device/scores.cuh"

namespace posenc::cuda {

// Which entry a distance reads.
struct RelativeEntries {
  int lowest;
  int highest;
  bool clips;

  __device__ explicit RelativeEntries(const RelativeTable& table)
      : lowest(table.lowest), highest(table.lowest + table.entries - 1), clips(table.clips) {}
  // -1: the term is 0.
  __device__ int at(int distance) const {
    const int near = min(max(distance, lowest), highest);
    return near == distance || clips ? near - lowest : -1;
  }
  // Whether some of the distances from `low` to `high` have a term, and whether all read the same entry.
  __device__ bool reaches(int low, int high) const {
    return clips || (high >= lowest && low <= highest);
  }
  __device__ bool all_clipped(int low, int high) const {
    return clips && (low >= highest || high <= lowest);
  }
};

// Adds to the biases of a thread's two rows; `distance` is that of the tile's first row and first key.
__device__ inline void add_relative(const RelativeTable& table, const float* const (&z)[2],
                                    int distance, const ThreadRows& mine, float (&biases)[2][16]) {
  const RelativeEntries entries(table);
  if (!entries.reaches(distance - 63, distance + 63)) return;
  const bool clipped = entries.all_clipped(distance - 63, distance + 63);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int first = distance + mine.row[h] - 16 * mine.column;
    const float constant = clipped ? z[h][entries.at(distance)] : 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      const int entry = clipped ? -1 : entries.at(first - j);
      biases[h][j] += entry < 0 ? constant : z[h][entry];
    }
  }
}

// Gradients of the rows' tables. A distance belongs to one key of a row, so entries are stored; those at the ends,
// which farther keys share, are summed.
class RelativeGradient {
 public:
  __device__ void start(float* const (&dz)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      dz_[h] = dz[h];
      low_[h] = high_[h] = 0.0f;
    }
  }
  // db: gradients at the biases of a tile, 0 for hidden pairs.
  __device__ void add(const RelativeTable& table, int distance, const ThreadRows& mine,
                      const Accum& db) {
    const RelativeEntries entries(table);
    if (!entries.reaches(distance - 63, distance + 63)) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int first = distance + mine.row[h] - 16 * mine.column;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        const int d = first - j;
        const float x = db[j / 2][2 * h + j % 2];
        if (entries.clips && d >= entries.highest) {
          high_[h] += x;
        } else if (entries.clips && d <= entries.lowest) {
          low_[h] += x;
        } else if (d >= entries.lowest && d <= entries.highest) {
          dz_[h][d - entries.lowest] = x;
        }
      }
    }
  }
  // The ends; ordered before other threads read by a barrier of the caller.
  __device__ void finish(const RelativeTable& table, const ThreadRows& mine) {
    if (!table.clips) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float high = row_sum(high_[h]);
      const float low = row_sum(low_[h]);
      if (mine.column != 0) continue;
      dz_[h][table.entries - 1] += high;
      dz_[h][0] += low;
    }
  }

 private:
  float* dz_[2] = {nullptr, nullptr};
  float low_[2] = {0.0f, 0.0f};
  float high_[2] = {0.0f, 0.0f};
};

}  // namespace posenc::cuda
