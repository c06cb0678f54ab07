// Shared by all launchers: the type of the stream, and error reporting.
#pragma once

#include <cstdint>

#include "posenc/core/status.h"

namespace posenc::cuda {

// A cudaStream_t, without CUDA's headers; null is the default stream.
using Stream = void*;

// Whether there is a GPU to run on; the reason where there is none.
Status device_status() noexcept;

// Launches report what the runtime says of them; errors of the kernels themselves come with the next
// synchronisation, as always with CUDA.
Status launch_status(const char* op) noexcept;

// Multiprocessors of the current device.
int multiprocessors() noexcept;

}  // namespace posenc::cuda
