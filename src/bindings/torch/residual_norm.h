// A residual sum and its LayerNorm, as the blocks of a transformer have them. On a GPU one kernel of ours reads and
// writes each tensor once, forward and backward; elsewhere, and for derivatives of derivatives, they are libtorch's
// operations, which are also the judge.
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
