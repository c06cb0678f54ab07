// Biases of rows against a tile of keys, for accumulators that start as the biases over the scale of
// scores: a product then adds the scores to them. Keys are in their own order.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

// Of kRows rows at the distances to kKeys keys, over the scale of scores, and once more one entry on: a
// thread reads pairs of them, which begin at even entries in one of the two.
template <int kRows, int kKeys>
struct PairWindow {
  static constexpr int kEntries = kRows + kKeys;
  static constexpr int kCopy = kEntries + 16;
  static constexpr int kBytes = 2 * kCopy * 4;
  static_assert(kCopy % 32 == 16);

  // The pair of columns 8 m + 2 column + {1, 0} of row h is at [4 (h - m)].
  __device__ static const float2* at(const float* window, int row, int column) {
    const int entry = row - 2 * column + kKeys - 2;
    return reinterpret_cast<const float2*>(window + (row % 2 == 0 ? entry : kCopy + entry + 1));
  }
};

// 64 keys, from column 8 `first` on.
__device__ inline void start_from_biases(const float2* pairs, int first, Accum& x) {
#pragma unroll
  for (int m = 0; m < 8; ++m) {
    const float2 own = pairs[-4 * (first + m)];
    const float2 above = pairs[4 - 4 * (first + m)];
    x[m][0] = own.y;
    x[m][1] = own.x;
    x[m][2] = above.y;
    x[m][3] = above.x;
  }
}

// How 128 threads bring a window from the table of a head to shared memory: read before rows are copied
// and stored after, so that the copies do not wait for it.
template <class Pairs, int kKeys>
class WindowCopy {
  static constexpr int kEach = (Pairs::kEntries + 127) / 128;  // entries of a thread

 public:
  // `place` is that of the first row, `key` the first of the tile.
  __device__ void read(const ToeplitzTable& toeplitz, int head, int place, int key, int thread) {
    const float* table = toeplitz.table + head * toeplitz.head_stride;
    const std::int64_t first = toeplitz.zero + place - key - (kKeys - 1);
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const std::int64_t at = first + 128 * n + thread;
      biases_[n] = at >= 0 && at < toeplitz.span ? table[at] : 0.0f;
    }
  }
  __device__ void store(float* window, float scale, int thread) const {
    float* to = window + thread;
    const float unscaled = 1.0f / scale;
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      if (Pairs::kEntries % 128 != 0 && 128 * n + thread >= Pairs::kEntries) continue;
      to[128 * n] = biases_[n] * unscaled;
      to[Pairs::kCopy + 1 + 128 * n] = biases_[n] * unscaled;
    }
  }

 private:
  float biases_[kEach];
};

}  // namespace posenc::cuda
