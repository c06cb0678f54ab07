// From a call to the compiled kernel: element type, chain, and sizes that fit.
#pragma once

#include <utility>

#include "kernels/cuda/attention_kernels.h"
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
      default:
        return f.template operator()<T, 3>();
    }
  };
  return p.element == Element::kBFloat16 ? of_element.template operator()<Bf16>()
                                         : of_element.template operator()<Fp16>();
}

}  // namespace posenc::cuda
