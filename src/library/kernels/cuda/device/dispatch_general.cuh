// From a call to the compiled general kernel.
#pragma once

#include "kernels/cuda/device/dispatch_attention.cuh"
#include "kernels/cuda/device/planes.cuh"
#include "kernels/cuda/general.h"

namespace posenc::cuda {

// Stick-breaking or queries times distances, which other calls do not spend registers on.
inline bool has_extra(const AttentionParams& p) {
  return p.breaks_sticks || p.relative.entries > 0;
}

// Calls f.template operator()<Kind, kGates, kExtra>() for one of the elements. Three parts of 256 channels do not fit
// into shared memory.
template <int kDim, ElementGroup kGroup, class F>
cudaError_t dispatch_general(const AttentionParams& p, F&& f) {
  const auto of_kind = [&]<class Kind>() {
    if (has_extra(p)) return f.template operator()<Kind, false, true>();
    return p.cope.npos_max > 0 && p.cope.gate_k.data != nullptr
               ? f.template operator()<Kind, true, false>()
               : f.template operator()<Kind, false, false>();
  };
  if constexpr (kGroup == ElementGroup::kHalves) {
    return p.element == Element::kBFloat16 ? of_kind.template operator()<Bf16>()
                                           : of_kind.template operator()<Fp16>();
  } else {
    if (p.float_parts == 2) return of_kind.template operator()<Float2>();
    if constexpr (kDim <= 128) return of_kind.template operator()<Float3>();
    return cudaErrorInvalidConfiguration;
  }
}

// Calls f.template operator()<Kind, kExtra>() for what the tuned kernels serve.
template <class F>
cudaError_t dispatch_half(const AttentionParams& p, F&& f) {
  const auto of_kind = [&]<class Kind>() {
    return has_extra(p) ? f.template operator()<Kind, true>()
                        : f.template operator()<Kind, false>();
  };
  return p.element == Element::kBFloat16 ? of_kind.template operator()<Bf16>()
                                         : of_kind.template operator()<Fp16>();
}

}  // namespace posenc::cuda
