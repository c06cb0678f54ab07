// From a call to the compiled general kernel.
#pragma once

#include "kernels/cuda/device/dispatch_attention.cuh"
#include "kernels/cuda/device/planes.cuh"
#include "kernels/cuda/general.h"

namespace posenc::cuda {

// Calls f.template operator()<Kind, kGates>(). Three parts of 256 channels do not fit into shared memory.
template <int kDim, class F>
cudaError_t dispatch_general(const AttentionParams& p, F&& f) {
  const auto of_kind = [&]<class Kind>() {
    return p.cope.npos_max > 0 && p.cope.gate_k.data != nullptr
               ? f.template operator()<Kind, true>()
               : f.template operator()<Kind, false>();
  };
  if (p.element == Element::kBFloat16) return of_kind.template operator()<Bf16>();
  if (p.element == Element::kFloat16) return of_kind.template operator()<Fp16>();
  if (p.float_parts == 2) return of_kind.template operator()<Float2>();
  if constexpr (kDim <= 128) return of_kind.template operator()<Float3>();
  return cudaErrorInvalidConfiguration;
}

// Calls f.template operator()<Kind>() for what the tuned kernels serve.
template <class F>
cudaError_t dispatch_half(const AttentionParams& p, F&& f) {
  return p.element == Element::kBFloat16 ? f.template operator()<Bf16>()
                                         : f.template operator()<Fp16>();
}

}  // namespace posenc::cuda
