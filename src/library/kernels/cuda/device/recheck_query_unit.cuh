// What a translation unit of the general query kernels instantiates for marked blocks.
#pragma once

#include "kernels/cuda/device/dispatch_general.cuh"
#include "kernels/cuda/device/general_query.cuh"

namespace posenc::cuda {

template <int kDim>
cudaError_t recheck_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                          const MarkedBlocks& list, cudaStream_t stream) {
  return dispatch_half(b.forward, [&]<class Kind, bool kExtra>() {
    return launch(recheck_query_kernel<Kind, kDim, kExtra>, dim3(kRecheckBlocks), 128,
                  GeneralQueryLayout<Kind, kDim, false>::kBytes, stream, b, space, list);
  });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim)                                                                        \
  template cudaError_t recheck_query<kDim>(const AttentionBackwardParams&, const BackwardSpace&, \
                                           const MarkedBlocks&, cudaStream_t);
