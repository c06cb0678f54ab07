// Adds arrays in device memory: to[i] += from[i], of one type, in float32.
#pragma once

#include "kernels/cuda/launch.h"
#include "posenc/core/tensor_view.h"

namespace posenc::cuda {

Status add(DType type, const void* from, void* to, std::int64_t count, Stream stream) noexcept;

}  // namespace posenc::cuda
