// The general attention kernels: every element type and chain (attention.h says which calls take them).
// Blocks of one warpgroup, grids of (slots, heads, sequences) whose blocks share the rows of a head, so
// that tables and partial sums per block do not grow with the length.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/backward_space.cuh"

namespace posenc::cuda {

// Whether only the general kernels know what a call asks for.
bool only_general(const AttentionParams& p) noexcept;
// Whether a call goes to them: the above, and tables that leave no room for the tuned ones' tiles.
bool needs_general(const AttentionParams& p) noexcept;

template <int kDim>
cudaError_t run_general_forward(const AttentionParams& p, int slots, cudaStream_t stream);
template <int kDim>
cudaError_t run_general_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                              cudaStream_t stream);
template <int kDim>
cudaError_t run_general_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                            cudaStream_t stream);

}  // namespace posenc::cuda
