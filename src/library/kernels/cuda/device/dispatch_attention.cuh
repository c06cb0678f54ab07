// From a call to the compiled kernel: element type, chain, and sizes that fit.
#pragma once

#include <utility>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device/fire_stream.cuh"
#include "kernels/cuda/device/mma.cuh"

namespace posenc::cuda {

template <class Kernel, class... Args>
cudaError_t launch(Kernel* kernel, dim3 grid, int threads, int bytes, cudaStream_t stream,
                   const Args&... args) {
  if (bytes > kMostSharedBytes) return cudaErrorInvalidConfiguration;
  cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error ==
      cudaErrorInvalidValue) {  // a GPU with less shared memory than the kernel is made for
    static_cast<void>(cudaGetLastError());
    return cudaErrorInvalidConfiguration;
  }
  if (error != cudaSuccess) return error;
  kernel<<<grid, threads, static_cast<std::size_t>(bytes), stream>>>(args...);
  return cudaGetLastError();
}

// Chains of one kind at up to 128 channels have warp-specialised kernels (sm_90a).
template <int kDim, int kChain>
constexpr bool kHasStream = POSENC_CUDA_90A&& kDim <= 128 &&
                            kChain != (kChainToeplitz | kChainCope);

inline bool runs_on_90a() {
  int device = 0;
  int major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9;
}
// Nothing that draws or looks up single keys, on a GPU that has the instructions.
inline bool may_stream(const AttentionParams& p) {
  return p.dropout_threshold == 0 && p.key_mask == nullptr && runs_on_90a();
}

// Whether a call has a term that only streams serve, and whether they serve this one.
template <int kChain>
constexpr bool kOnlyStreams =
    kChain == kChainTokens || kChain == kChainFire || kChain == kChainSticks;
inline bool only_streams(const AttentionParams& p) {
  return p.tokens.at_key != nullptr || p.fire.segments > 0 || p.breaks_sticks;
}
inline bool may_stream_alone(const AttentionParams& p) {
  const int terms = (p.tokens.at_key != nullptr ? 1 : 0) + (p.fire.segments > 0 ? 1 : 0) +
                    (p.breaks_sticks ? 1 : 0);
  const bool alone = p.toeplitz.table == nullptr && p.cope.npos_max == 0 && terms == 1;
  return POSENC_CUDA_90A && p.head_dim <= 128 && p.fire.segments <= kStreamSegments && alone &&
         may_stream(p);
}

// Calls f.template operator()<T, kChain>().
template <class F>
cudaError_t dispatch_chain(const AttentionParams& p, F&& f) {
  const auto of_element = [&]<class T>() {
    switch (chain_of(p)) {
      case 0:
        return f.template operator()<T, 0>();
      case 1:
        return f.template operator()<T, 1>();
      case 2:
        return f.template operator()<T, 2>();
      case 3:
        return f.template operator()<T, 3>();
      case kChainSoftcap:
        return f.template operator()<T, kChainSoftcap>();
      case kChainSoftcap | kChainToeplitz:
        return f.template operator()<T, (kChainSoftcap | kChainToeplitz)>();
      case kChainSticks:
        return f.template operator()<T, kChainSticks>();
      case kChainFire:
        return f.template operator()<T, kChainFire>();
      default:
        return f.template operator()<T, kChainTokens>();
    }
  };
  return p.element == Element::kBFloat16 ? of_element.template operator()<Bf16>()
                                         : of_element.template operator()<Fp16>();
}

}  // namespace posenc::cuda
