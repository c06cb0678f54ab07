#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/add.h"
#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/device/elements.cuh"

namespace posenc::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 4096;

template <class T>
__global__ void add_kernel(const T* from, T* to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    to[i] = from_float<T>(to_float(to[i]) + to_float(from[i]));
  }
}

}  // namespace

Status add(DType type, const void* from, void* to, std::int64_t count, Stream stream) noexcept {
  if (count == 0) return {};
  const auto blocks =
      static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
  with_type(type, [&]<class T>(T) {
    add_kernel<T><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        static_cast<const T*>(from), static_cast<T*>(to), count);
  });
  return launch_status("add");
}

}  // namespace posenc::cuda
