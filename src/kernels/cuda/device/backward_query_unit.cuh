// What a unit of compilation of the queries' backward instantiates.
#pragma once

#include "kernels/cuda/device/backward_query.cuh"
#include "kernels/cuda/device/dispatch_attention.cuh"

namespace posenc::cuda {

template <int kDim, int kChain, bool kCompact>
int backward_query_bytes(const AttentionParams& p) {
  constexpr Sizes kSizes = backward_query_sizes(kDim, kChain, kCompact);
  return QueryLayout<kDim, kChain, kSizes.groups, kSizes.stages>::bytes(p.cope.npos_max);
}

template <class T, int kDim, int kChain, bool kCompact>
cudaError_t launch_backward_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                                  cudaStream_t stream) {
  constexpr Sizes kSizes = backward_query_sizes(kDim, kChain, kCompact);
  const int bytes = backward_query_bytes<kDim, kChain, kCompact>(b.forward);
  if constexpr (!kCompact && (kChain & kChainCope) != 0) {
    if (bytes > kMostSharedBytes) {
      return launch_backward_query<T, kDim, kChain, true>(b, space, stream);
    }
  }
  const dim3 grid(static_cast<unsigned>(space.slots), static_cast<unsigned>(b.forward.heads),
                  static_cast<unsigned>(sequences_of(b.forward)));
  return launch(
      attention_backward_query_kernel<T, kDim, kChain, kSizes.groups, kSizes.stages, kSizes.blocks>,
      grid, kSizes.groups * 128, bytes, stream, b, space);
}

template <int kDim>
cudaError_t run_backward_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                               cudaStream_t stream) {
  return dispatch_chain(b.forward, [&]<class T, int kChain>() {
    return launch_backward_query<T, kDim, kChain, false>(b, space, stream);
  });
}

template <int kDim>
int backward_query_groups(const AttentionParams& p) {
  int groups = 0;
  static_cast<void>(dispatch_chain(p, [&]<class T, int kChain>() {
    if (backward_query_bytes<kDim, kChain, false>(p) <= kMostSharedBytes) {
      groups = backward_query_sizes(kDim, kChain, false).groups;
    } else if (backward_query_bytes<kDim, kChain, true>(p) <= kMostSharedBytes) {
      groups = backward_query_sizes(kDim, kChain, true).groups;
    }
    return cudaSuccess;
  }));
  return groups;
}

}  // namespace posenc::cuda
