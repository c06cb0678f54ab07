// Selects the path of attention on a CUDA device, and gives the reason: for every call, and for explain().
#pragma once

#include <string>

#include "kernels/attention_call.h"
#include "posenc/kernels/capability.h"

namespace posenc {

// What the kernels see in a type. They compute float32 with sums of three bfloat16 numbers, which are exact,
// or of two, where the user allows that.
enum class CudaNumbers : std::uint8_t { kHalf, kSplitFloat32, kExactFloat32, kFloat64 };

struct CudaProblem {
  CudaNumbers numbers = CudaNumbers::kHalf;
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 0;  // channels of values; 0: head_dim
  std::int64_t batch = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  bool explicit_positions = false;
};

// Of how many bfloat16 numbers a float32 is the sum in the kernels. CoPE takes three wherever they are served:
// its gradient jumps where a position passes a whole number, and at 16 bits too many take the other side.
int float_parts(const Terms& terms, const CudaProblem& problem);

// Whether kernels skip keys with negligible weight under fox(prune=true); calls with a padding mask do not.
bool prunes_keys(const Terms& terms);

// Why no fused kernel serves it; empty where one does.
std::string cuda_obstacle(const Terms& terms, const CudaProblem& problem);
// The same of its backward, which the forward may not share.
std::string cuda_backward_obstacle(const Terms& terms, const CudaProblem& problem);

// Both, with the memory of scores where they are tensors.
Capability cuda_capability(const Terms& terms, const CudaProblem& problem);

}  // namespace posenc
