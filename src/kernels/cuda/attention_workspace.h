// How a backward lays out its workspace and how many queries it takes at a time.
#pragma once

#include <cstddef>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/backward_space.cuh"

namespace posenc::cuda {

struct BackwardPlan {
  BackwardSpace space;  // pointers are offsets from the workspace until bound
  std::size_t bytes = 0;
  int groups = 0;  // warpgroups per block of the queries' kernel; 0: tables do not fit
  std::int64_t dtoeplitz_partials = 0;
  std::int64_t dembedding_partials = 0;
  std::int64_t dembedding_entries = 0;  // per partial sum
  float* level = nullptr;               // sums of partial sums
  int chunks = 1;
};

// `workspace` may be null where only the bytes are asked for.
BackwardPlan plan_backward(const AttentionBackwardParams& b, void* workspace) noexcept;

}  // namespace posenc::cuda
