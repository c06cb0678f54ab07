// Which path attention takes on a CUDA device, and why: asked before every call, and by explain().
#pragma once

#include "kernels/attention_plan.h"

namespace posenc::ops {

struct CudaProblem {
  bool half = true;  // bfloat16 or float16
  std::int64_t head_dim = 64;
  std::int64_t queries = 1;
  bool explicit_positions = false;
};

// Why no fused kernel serves it; empty where one does.
std::string cuda_obstacle(const AttentionPlan::State& state, const CudaProblem& problem);

// "fused on cuda, rope in a pass of its own, toeplitz table (alibi), cope", or "composed on cuda: ..".
std::string explain_cuda(const AttentionPlan::State& state, const CudaProblem& problem);

}  // namespace posenc::ops
