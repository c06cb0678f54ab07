// Peak memory of work on a GPU, from libtorch's allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace posenc::bench {

// The most bytes that tensors took while `work` ran, those from before included. Nothing where this was built
// without libtorch's CUDA library; the work is done all the same.
std::optional<std::int64_t> gpu_peak_bytes_of(const std::function<void()>& work);

// Gives the memory of freed tensors back to the device, so that the next model finds it.
void release_gpu_memory();

}  // namespace posenc::bench
