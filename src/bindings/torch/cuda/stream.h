// The stream that libtorch runs on: all that is asked of its CUDA headers.
#pragma once

#include <ATen/ATen.h>

#include "kernels/cuda/launch.h"

namespace posenc::ops {

cuda::Stream current_stream(const at::Device& device);

}  // namespace posenc::ops
