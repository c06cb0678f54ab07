// Moving tiles between device memory and shared memory.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/mma.cuh"

namespace posenc::cuda {

__device__ inline void copy_16_async(std::uint32_t to, const void* from, bool real) {
  const int bytes = real ? 16 : 0;  // the rest is zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void copy_16_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copy_4_async(std::uint32_t to, const void* from, bool real) {
  const int bytes = real ? 4 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Keys lie in a tile in another order, so that a thread's 16 columns of the scores (8 n + 2 c + e for
// its c = lane % 4) are 16 neighbouring keys: scans along keys then run inside a thread, and a draw of
// the dropout serves four of its scores.
__device__ inline int key_of_slot(int slot) {
  return (slot >> 1 & 3) * 16 + (slot >> 3) * 2 + (slot & 1);
}

// Rows of one head of a tensor.
template <class T>
struct RowsOf {
  const T* data;
  std::int64_t stride;
};
template <class T>
__device__ inline RowsOf<T> rows_of(const Tensor4& x, std::int64_t batch, std::int64_t head,
                                    std::int64_t first) {
  const T* data = static_cast<const T*>(x.data) + batch * x.batch_stride + head * x.head_stride +
                  first * x.token_stride;
  return {data, x.token_stride};
}

// Copies kRows rows from `first` on (those at or past `count` are zeros), dim channels of kDim, into
// kDim / 64 tiles of kRows rows, by kThreads threads. A thread's copies are the same number of slots
// apart, a multiple of eight, and so are its keys.
template <int kDim, int kRows, bool kKeys, int kThreads, class T>
__device__ inline void load_tile(std::uint32_t to, const RowsOf<T>& from, int first, int count,
                                 int dim, int thread = threadIdx.x) {
  constexpr int kChunks = kDim / 8;
  constexpr int kStep = kThreads / kChunks;  // slots between copies
  constexpr int kCopies = (kRows + kStep - 1) / kStep;
  static_assert(!kKeys || kRows == 64);
  if constexpr (kStep % 8 != 0) {
#pragma unroll
    for (int d = 0; d < kDim / 64; ++d) {
      load_tile<64, kRows, kKeys, kThreads>(to + d * (kRows * 128),
                                            RowsOf<T>{from.data + 64 * d, from.stride}, first,
                                            count, min(dim - 64 * d, 64), thread);
    }
    return;
  }
  const int chunk = thread % kChunks;
  const int slot = thread / kChunks;
  const int row = kKeys ? key_of_slot(slot & 63) : slot;
  constexpr int kRowStep = kKeys ? kStep / 4 : kStep;
  const T* source = from.data + (first + row) * from.stride + chunk * 8;
  const std::uint32_t target = to + (chunk / 8) * (kRows * 128) + chunk_offset(slot, chunk % 8);
  const std::int64_t source_step = kRowStep * from.stride;
  if (first + kRows <= count && dim == kDim) {
#pragma unroll
    for (int n = 0; n < kCopies; ++n) {
      if (kRows % kStep == 0 || slot + n * kStep < kRows) {
        copy_16_async(target + n * kStep * 128, source + n * source_step);
      }
    }
    return;
  }
#pragma unroll
  for (int n = 0; n < kCopies; ++n) {
    const bool real = first + row + n * kRowStep < count && chunk * 8 < dim;
    if (kRows % kStep == 0 || slot + n * kStep < kRows) {
      copy_16_async(target + n * kStep * 128, real ? source + n * source_step : from.data, real);
    }
  }
}

// Orders the block's first kThreads threads, which may be all of them.
template <int kThreads>
__device__ inline void threads_sync() {
  asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
}
// Orders the 128 threads of warpgroup `group` of the block.
__device__ inline void group_sync(int group) {
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

// Two neighbouring elements of an accumulator's row.
template <class T>
__device__ inline void store_pair(T* to, float low, float high) {
  *reinterpret_cast<std::uint32_t*>(to) = pack<T>(low, high);
}
__device__ inline void store_pair(float* to, float low, float high) {
  *reinterpret_cast<float2*>(to) = make_float2(low, high);
}

}  // namespace posenc::cuda
