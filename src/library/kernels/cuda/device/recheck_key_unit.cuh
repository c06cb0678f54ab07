// What a translation unit of the general key kernels instantiates for marked blocks.
#pragma once

#include "kernels/cuda/device/dispatch_general.cuh"
#include "kernels/cuda/device/general_key.cuh"

namespace posenc::cuda {

template <int kDim>
cudaError_t recheck_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                        const MarkedBlocks& list, cudaStream_t stream) {
  static_assert(kDim / 64 / general_key_parts(kDim, false) == backward_key_shares(kDim),
                "marks are per share of the channels");
  return dispatch_half(b.forward, [&]<class Kind, bool kExtra>() {
    return launch(recheck_key_kernel<Kind, kDim, kExtra>, dim3(kRecheckBlocks), 128,
                  GeneralKeyLayout<Kind, kDim, false>::kBytes, stream, b, space, list);
  });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim)                                                                      \
  template cudaError_t recheck_key<kDim>(const AttentionBackwardParams&, const BackwardSpace&, \
                                         const MarkedBlocks&, cudaStream_t);
