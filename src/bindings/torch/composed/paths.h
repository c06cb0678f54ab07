// What the types of tensors and PyTorch's switches mean for the path of attention on a CUDA device.
#pragma once

#include "kernels/cuda/paths.h"
#include "torch/arguments.h"

namespace posenc::ops {

CudaNumbers cuda_numbers(at::ScalarType type);

// What torch.set_float32_matmul_precision("high") says, or one of the switches that say the same.
bool allows_split_float32();

}  // namespace posenc::ops
