// How a backward lays out its workspace and how many queries it takes at a time.
#pragma once

#include <cstddef>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/backward_space.cuh"

namespace posenc::cuda {

struct BackwardPlan {
  BackwardSpace space;  // pointers are offsets from the workspace until bound
  std::size_t bytes = 0;
  bool general = false;  // which family of kernels
  int groups = 1;        // warpgroups per block of the queries' kernel
  std::int64_t dtoeplitz_partials = 0;
  std::int64_t dembedding_partials = 0;
  std::int64_t dembedding_entries = 0;  // per partial sum
  std::int64_t dfire_partials = 0;
  float* level = nullptr;  // sums of partial sums
  int chunks = 1;
};

// The tuned forward's workspace: marks, then tables for what is computed again. Null: only the bytes.
struct ForwardPlan {
  std::uint32_t* marks = nullptr;  // [sequences, heads, row blocks]
  float* tables = nullptr;
  std::size_t bytes = 0;
};
ForwardPlan plan_forward(const AttentionParams& p, void* workspace) noexcept;

// Blocks of threads of the general forward that share the rows of a head, and the bytes of their tables.
int general_forward_slots(const AttentionParams& p) noexcept;
std::size_t general_forward_bytes(const AttentionParams& p) noexcept;

// `workspace` may be null where only the bytes are asked for.
BackwardPlan plan_backward(const AttentionBackwardParams& b, void* workspace) noexcept;

}  // namespace posenc::cuda
