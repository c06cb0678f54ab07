// What a translation unit of the general keys' backward instantiates.
#pragma once

#include "kernels/cuda/device/dispatch_general.cuh"
#include "kernels/cuda/device/general_key.cuh"

namespace posenc::cuda {

template <int kDim, ElementGroup kGroup>
cudaError_t run_general_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                            cudaStream_t stream) {
  return dispatch_general<kDim, kGroup>(b.forward, [&]<class Kind, bool kGates, bool kExtra>() {
    if constexpr (backward_fits(kDim, Planes<Kind>::kCount > 1, kGates)) {
      static_assert(GeneralKeyLayout<Kind, kDim, kGates>::kBytes <= kMostSharedBytes);
      constexpr int kShares = kDim / 64 / general_key_parts(kDim, kGates);
      const dim3 grid(static_cast<unsigned>((longest_keys(b.forward) + 63) / 64 * kShares),
                      static_cast<unsigned>(b.forward.kv_heads),
                      static_cast<unsigned>(sequences_of(b.forward)));
      using Layout = GeneralKeyLayout<Kind, kDim, kGates>;
      const int bytes =
          b.forward.relative.entries > 0 ? Layout::kBytesWithRelative : Layout::kBytes;
      return launch(general_key_kernel<Kind, kDim, kGates, kExtra>, grid, 128, bytes, stream, b,
                    space);
    } else {
      return cudaErrorInvalidConfiguration;
    }
  });
}

}  // namespace posenc::cuda

#define POSENC_UNIT(kDim, kGroup)                                   \
  template cudaError_t run_general_key<kDim, ElementGroup::kGroup>( \
      const AttentionBackwardParams&, const BackwardSpace&, cudaStream_t);
