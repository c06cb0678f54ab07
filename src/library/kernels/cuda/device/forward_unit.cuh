// What a translation unit of the forward instantiates.
#pragma once

#include "kernels/cuda/device/dispatch_attention.cuh"
#include "kernels/cuda/device/forward.cuh"
#include "kernels/cuda/device/forward_stream.cuh"

namespace posenc::cuda {

template <class T, int kDim, int kChain>
cudaError_t launch_stream(const AttentionParams& p, cudaStream_t stream) {
  using Of = StreamSizes<kDim>;
  const dim3 grid(static_cast<unsigned>((longest_queries(p) + Of::kRows - 1) / Of::kRows),
                  static_cast<unsigned>(p.heads), static_cast<unsigned>(sequences_of(p)));
  return launch(attention_stream_kernel<T, kDim, kChain>, grid, Of::kThreads,
                StreamLayout<kDim, kChain>::bytes(p.cope.npos_max), stream, p);
}

template <class T, int kDim, int kChain, bool kCompact>
cudaError_t launch_forward(const AttentionParams& p, cudaStream_t stream) {
  if constexpr (kHasStream<kDim, kChain>) {
    const bool fits = StreamLayout<kDim, kChain>::bytes(p.cope.npos_max) <= kMostSharedBytes;
    const bool worth = kOnlyStreams<kChain> || longest_queries(p) > kShortRows;
    if (may_stream(p) && fits && worth) {
      return launch_stream<T, kDim, kChain>(p, stream);
    }
  }
  if constexpr (kOnlyStreams<kChain>) {
    return cudaErrorInvalidConfiguration;
  } else {
    constexpr Sizes kSizes = forward_sizes(kDim, kChain, kCompact);
    const int bytes =
        ForwardLayout<kDim, kChain, kSizes.groups, kSizes.stages>::bytes(p.cope.npos_max);
    if constexpr (!kCompact && (kChain & kChainCope) != 0) {
      if (bytes > kMostSharedBytes) return launch_forward<T, kDim, kChain, true>(p, stream);
    }
    constexpr int kRows = kSizes.groups * 64;
    const dim3 grid(static_cast<unsigned>((longest_queries(p) + kRows - 1) / kRows),
                    static_cast<unsigned>(p.heads), static_cast<unsigned>(sequences_of(p)));
    return launch(
        attention_forward_kernel<T, kDim, kChain, kSizes.groups, kSizes.stages, kSizes.blocks>,
        grid, kSizes.groups * 128, bytes, stream, p);
  }
}

template <int kDim>
cudaError_t run_forward(const AttentionParams& p, cudaStream_t stream) {
  return dispatch_chain(
      p, [&]<class T, int kChain>() { return launch_forward<T, kDim, kChain, false>(p, stream); });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim) \
  template cudaError_t run_forward<kDim>(const AttentionParams&, cudaStream_t);
