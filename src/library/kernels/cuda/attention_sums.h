// The sums around the backward's kernels, each in a fixed order.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention.h"

namespace posenc::cuda {

inline constexpr int kSumSplits = 64;

// delta[b, h, i] = SUM over channels of grad_out * out.
cudaError_t sum_products(const AttentionBackwardParams& b, float* delta, cudaStream_t stream);

// to[i] = SUM over n of partials[n, i]; `level` holds kSumSplits * entries where there are many
// partial sums and few entries, and may be null.
cudaError_t sum_partials(const float* partials, std::int64_t count, std::int64_t entries,
                         float* level, float* to, cudaStream_t stream);

// to[h] = SUM of partials[s, h, 0 .. per_head - 1] over sequences s.
cudaError_t sum_heads(const float* partials, int sequences, int heads, std::int64_t per_head,
                      float* to, cudaStream_t stream);

}  // namespace posenc::cuda
