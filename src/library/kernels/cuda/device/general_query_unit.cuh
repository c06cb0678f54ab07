// What a translation unit of the general queries' backward instantiates.
#pragma once

#include "kernels/cuda/device/dispatch_general.cuh"
#include "kernels/cuda/device/general_query.cuh"

namespace posenc::cuda {

template <int kDim, ElementGroup kGroup>
cudaError_t run_general_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                              cudaStream_t stream) {
  return dispatch_general<kDim, kGroup>(b.forward, [&]<class Kind, bool kGates, bool kExtra>() {
    if constexpr (backward_fits(kDim, Planes<Kind>::kCount > 1, kGates)) {
      static_assert(GeneralQueryLayout<Kind, kDim, kGates>::kBytes <= kMostSharedBytes);
      const dim3 grid(static_cast<unsigned>(space.slots), static_cast<unsigned>(b.forward.heads),
                      static_cast<unsigned>(sequences_of(b.forward)));
      return launch(general_query_kernel<Kind, kDim, kGates, kExtra>, grid, 128,
                    GeneralQueryLayout<Kind, kDim, kGates>::kBytes, stream, b, space);
    } else {
      return cudaErrorInvalidConfiguration;
    }
  });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim, kGroup)                                     \
  template cudaError_t run_general_query<kDim, ElementGroup::kGroup>( \
      const AttentionBackwardParams&, const BackwardSpace&, cudaStream_t);
