// What a translation unit of the general forward instantiates.
#pragma once

#include "kernels/cuda/device/dispatch_general.cuh"
#include "kernels/cuda/device/general_forward.cuh"

namespace posenc::cuda {

template <int kDim>
cudaError_t run_general_forward(const AttentionParams& p, int slots, cudaStream_t stream) {
  const auto run = [&]<class Kind, bool kGates, bool kExtra>() {
    const dim3 grid(static_cast<unsigned>(slots), static_cast<unsigned>(p.heads),
                    static_cast<unsigned>(sequences_of(p)));
    return launch(general_forward_kernel<Kind, kDim, kGates, kExtra>, grid, 128,
                  GeneralForwardLayout<Kind, kDim, kGates>::kBytes, stream, p);
  };
  return has_halves(p) ? dispatch_general<kDim, ElementGroup::kHalves>(p, run)
                       : dispatch_general<kDim, ElementGroup::kFloats>(p, run);
}

template <int kDim>
cudaError_t recheck_forward(const AttentionParams& p, const MarkedBlocks& list,
                            cudaStream_t stream) {
  return dispatch_half(p, [&]<class Kind, bool kExtra>() {
    return launch(recheck_forward_kernel<Kind, kDim, kExtra>, dim3(kRecheckBlocks), 128,
                  GeneralForwardLayout<Kind, kDim, false>::kBytes, stream, p, list);
  });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim)                                                                    \
  template cudaError_t run_general_forward<kDim>(const AttentionParams&, int, cudaStream_t); \
  template cudaError_t recheck_forward<kDim>(const AttentionParams&, const MarkedBlocks&,    \
                                             cudaStream_t);
