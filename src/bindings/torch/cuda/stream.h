// The CUDA stream of libtorch: the only part of its CUDA headers that is used.
#pragma once

#include <ATen/ATen.h>

#include "kernels/cuda/launch.h"

namespace posenc::ops {

cuda::Stream current_stream(const at::Device& device);

}  // namespace posenc::ops
