// A residual sum and its LayerNorm, as in the blocks of a transformer. On a GPU one custom kernel reads and writes each
// tensor once, forward and backward. Other devices and double backward use libtorch operations, with which the kernel is
// compared.
#pragma once

#include <ATen/ATen.h>

namespace posenc::nn {

struct ResidualNorm {
  at::Tensor sum;         // x + branch
  at::Tensor normalized;  // LayerNorm(sum) over the last dimension
};

// An undefined branch is none: the sum is x. The products that read `normalized` round it to their own type; under
// autocast on a GPU it is in that type already.
ResidualNorm residual_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                           const at::Tensor& bias, double epsilon = 1e-5);

}  // namespace posenc::nn
