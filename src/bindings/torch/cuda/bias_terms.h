// The table of a spec's Toeplitz biases, computed on the GPU with one launch per bias.
#pragma once

#include "torch/composed/biases.h"

namespace posenc::ops {

// As bias_table(), in float32.
at::Tensor bias_table_cuda(const Prepared& prepared,
                           const std::vector<std::vector<at::Tensor>>& parameters,
                           const BiasTable& range, const at::Device& device);

}  // namespace posenc::ops
