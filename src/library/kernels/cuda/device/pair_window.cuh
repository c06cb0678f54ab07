// Biases of rows for a tile of keys. Accumulators are initialised with bias / scale, and the product adds the scores. Keys
// are in sequence order.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

// Of kRows rows at the distances to kKeys keys, over the scale of scores, from the farthest on, and once more one
// entry on: a thread reads pairs of them, which begin at even entries in one of the two.
template <int kRows, int kKeys>
struct PairWindow {
  static constexpr int kFirst =
      kRows - 1;  // the distance of entry 0, from that of the first row and key
  static constexpr int kStep = -1;
  static constexpr int kEntries = kRows + kKeys;
  static constexpr int kCopy = kEntries + 16;
  static constexpr int kBytes = 2 * kCopy * 4;
  static_assert(kCopy % 32 == 16);

  // The pair of columns 8 m + 2 column + {0, 1} of row h is at [4 (m - h)].
  __device__ static const float2* at(const float* window, int row, int column) {
    const int entry = 2 * column - row + kRows - 1;
    return reinterpret_cast<const float2*>(window + (entry % 2 == 0 ? entry : kCopy + entry + 1));
  }
};

#if defined(__CUDACC__)

// 64 keys, from column 8 `first` on. Loads go straight to the registers of the accumulators: those that a compiler
// would share between rows take a move for every score.
__device__ inline void start_from_biases(const float2* pairs, int first, Accum& x) {
  const std::uint32_t from = smem_address(pairs) + 32 * first;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float* pair = &x[i / 2][i % 2 * 2];
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                 : "=f"(pair[0]), "=f"(pair[1])
                 : "r"(from + static_cast<std::uint32_t>(32 * (i / 2 - i % 2)))
                 : "memory");
  }
}

#endif

// The same of 64 queries to kKeys keys where queries are the columns, from the lowest distance on.
template <int kKeys>
struct QueryWindow {
  static constexpr int kFirst = 1 - kKeys;
  static constexpr int kStep = 1;
  static constexpr int kEntries = kKeys + 64;
  static constexpr int kCopy = kEntries + 16;
  static_assert(kCopy % 32 == 16);

  // The pair of queries 8 n + 2 column + {0, 1} at key `key` + 8 h of the block is at [4 (n - h)].
  __device__ static const float2* at(const float* window, int key, int column) {
    const int entry = 2 * column - key + kKeys - 1;
    return reinterpret_cast<const float2*>(window + (entry % 2 == 0 ? entry : kCopy + entry + 1));
  }
};

// How 128 threads bring a window from the table of a head to shared memory: read before rows are copied
// and stored after, so that the copies do not wait for it.
template <class Pairs>
class WindowCopy {
  static constexpr int kEach = (Pairs::kEntries + 127) / 128;  // entries of a thread

 public:
  // `place` is that of the first row, `key` the first of the tile.
  __device__ void read(const ToeplitzTable& toeplitz, int head, int place, int key, int thread) {
    const float* table = toeplitz.table + head * toeplitz.head_stride;
    const std::int64_t first = toeplitz.zero + place - key + Pairs::kFirst;
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const std::int64_t at = first + Pairs::kStep * (128 * n + thread);
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
