// What a unit of compilation of the general keys' backward instantiates.
#pragma once

#include "kernels/cuda/device/dispatch_general.cuh"
#include "kernels/cuda/device/general_key.cuh"

namespace posenc::cuda {

template <int kDim>
cudaError_t run_general_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                            cudaStream_t stream) {
  return dispatch_general<kDim>(b.forward, [&]<class Kind, bool kGates, bool kExtra>() {
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
