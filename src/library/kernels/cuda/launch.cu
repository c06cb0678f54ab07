#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"

namespace posenc::cuda {

Status device_status() noexcept {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return {};
  return Status::format(StatusCode::kUnsupported, "[cuda] no GPU: %s",
                        error == cudaSuccess ? "none is visible" : cudaGetErrorString(error));
}

Status launch_status(const char* op) noexcept {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return Status::format(StatusCode::kUnsupported, "[%s] the launch failed: %s", op,
                        cudaGetErrorString(error));
}

int multiprocessors() noexcept {
  int device = 0;
  int count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 1;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 1;
  return count;
}

}  // namespace posenc::cuda
