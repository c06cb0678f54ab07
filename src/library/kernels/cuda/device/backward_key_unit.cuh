// What a translation unit of the keys' backward instantiates.
#pragma once

#include "kernels/cuda/device/backward_key.cuh"
#include "kernels/cuda/device/backward_key_stream.cuh"
#include "kernels/cuda/device/dispatch_attention.cuh"

namespace posenc::cuda {

template <class T, int kDim, int kChain>
cudaError_t launch_key_stream(const AttentionBackwardParams& b, const BackwardSpace& space,
                              cudaStream_t stream) {
  using Of = KeyStreamSizes<kDim, kChain>;
  const AttentionParams& p = b.forward;
  const dim3 grid(static_cast<unsigned>((longest_keys(p) + Of::kKeys - 1) / Of::kKeys),
                  static_cast<unsigned>(p.kv_heads), static_cast<unsigned>(sequences_of(p)));
  return launch(attention_backward_key_stream_kernel<T, kDim, kChain>, grid, Of::kThreads,
                KeyStreamLayout<kDim, kChain>::bytes(p.cope.npos_max), stream, b, space);
}

template <class T, int kDim, int kChain, bool kCompact>
cudaError_t launch_backward_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                                cudaStream_t stream) {
  constexpr Sizes kSizes = backward_key_sizes(kDim, kChain, kCompact);
  constexpr int kOut = backward_key_parts(kDim);
  const AttentionParams& p = b.forward;
  if constexpr (kHasStream<kDim, kChain>) {
    if (may_stream(p) &&
        KeyStreamLayout<kDim, kChain>::bytes(p.cope.npos_max) <= kMostSharedBytes) {
      return launch_key_stream<T, kDim, kChain>(b, space, stream);
    }
  }
  if constexpr (kOnlyStreams<kChain>) {
    return cudaErrorInvalidConfiguration;
  } else {
    const int bytes = KeyLayout<kDim, kChain, kSizes.groups, kSizes.stages>::bytes(p.cope.npos_max);
    if constexpr (!kCompact && (kChain & kChainCope) != 0) {
      if (bytes > kMostSharedBytes) {
        return launch_backward_key<T, kDim, kChain, true>(b, space, stream);
      }
    }
    constexpr int kKeys = kSizes.groups * 64;
    const int blocks = (longest_keys(p) + kKeys - 1) / kKeys * (kDim / 64 / kOut);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(p.kv_heads),
                    static_cast<unsigned>(sequences_of(p)));
    return launch(attention_backward_key_kernel<T, kDim, kChain, kSizes.groups, kSizes.stages, kOut,
                                                kSizes.blocks>,
                  grid, kSizes.groups * 128, bytes, stream, b, space);
  }
}

template <int kDim>
cudaError_t run_backward_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                             cudaStream_t stream) {
  return dispatch_chain(b.forward, [&]<class T, int kChain>() {
    return launch_backward_key<T, kDim, kChain, false>(b, space, stream);
  });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim)                                                     \
  template cudaError_t run_backward_key<kDim>(const AttentionBackwardParams&, \
                                              const BackwardSpace&, cudaStream_t);
