#include "bench/torch/gpu_memory.h"

#ifdef POSENC_TORCH_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace posenc::bench {

#ifdef POSENC_TORCH_HAS_CUDA

std::optional<std::int64_t> gpu_peak_bytes_of(const std::function<void()>& work) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  constexpr std::size_t kAllPools =
      0;  // StatType::AGGREGATE, whose namespace differs between versions
  const auto device = c10::cuda::current_device();
  allocator::resetPeakStats(device);
  work();
  c10::cuda::device_synchronize();
  return allocator::getDeviceStats(device).allocated_bytes[kAllPools].peak;
}

void release_gpu_memory() { c10::cuda::CUDACachingAllocator::emptyCache(); }

#else

std::optional<std::int64_t> gpu_peak_bytes_of(const std::function<void()>& work) {
  work();
  return std::nullopt;
}

void release_gpu_memory() {}

#endif

}  // namespace posenc::bench
