// Marks on blocks of 64 rows of a result. A tuned kernel multiplies masked keys, values and queries by weights of 0, which
// gives NaN if they are not finite. It marks the blocks in which that may have happened, and the general kernels, which
// skip masked pairs, recompute them.
#pragma once

#include "kernels/cuda/device/rows.cuh"
#include "kernels/cuda/general.h"

namespace posenc::cuda {

template <int kParts>
__device__ inline bool all_finite(const Accum (&x)[kParts]) {
  float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < kParts * 32; ++i) {
    part[i % 4] = fmaf(x[i / 32][i / 4 % 8][i % 4], 0.0f, part[i % 4]);
  }
  return (part[0] + part[1]) + (part[2] + part[3]) == 0.0f;
}

// Sets a warp's byte of a block's mark, or (`more`) adds to it.
__device__ inline void mark_rows(std::uint32_t* mark, bool suspect, bool more = false) {
  const bool any = __any_sync(~0u, suspect);
  if (threadIdx.x % 32 != 0 || (more && !any)) return;
  reinterpret_cast<std::uint8_t*>(mark)[threadIdx.x / 32 % 4] = any ? 1 : 0;
}

// Whether some thread of warpgroup `group` says so; orders the group.
__device__ inline bool any_of_group(bool own, int group) {
  int any;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.s32 p, %1, 0; barrier.cta.red.or.pred q, %2, 128, p; "
      "selp.s32 %0, 1, 0, q; }"
      : "=r"(any)
      : "r"(static_cast<int>(own)), "r"(group + 1)
      : "memory");
  return any != 0;
}

// The marked blocks that this block of threads computes again, one after the other.
class MarkedWork {
 public:
  __device__ explicit MarkedWork(const MarkedBlocks& list) : list_(list) {}

  // Called by all 128 threads, which get the same answer. 128 marks are looked at together; neighbours
  // are other blocks' work.
  __device__ bool next() {
    const std::int64_t count =
        static_cast<std::int64_t>(list_.sequences) * list_.heads * list_.blocks;
    while (true) {
      const std::int64_t item = at_ * gridDim.x + blockIdx.x;
      if (item >= count) return false;
      if (at_ % 128 == 0) {
        const std::int64_t own = item + static_cast<std::int64_t>(threadIdx.x) * gridDim.x;
        if (__syncthreads_or(own < count && list_.marks[own] != 0) == 0) {
          at_ += 128;
          continue;
        }
      }
      ++at_;
      if (list_.marks[item] == 0) continue;
      block = static_cast<int>(item % list_.blocks);
      head = static_cast<int>(item / list_.blocks % list_.heads);
      sequence = static_cast<int>(item / list_.blocks / list_.heads);
      return true;
    }
  }

  int sequence = 0;
  int head = 0;
  int block = 0;

 private:
  const MarkedBlocks& list_;
  std::int64_t at_ = 0;
};

}  // namespace posenc::cuda
