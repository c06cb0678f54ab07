// The part of PyTorch's C++ interface that operators on the CPU use. Their sources are compiled twice: with libtorch,
// and with POSENC_STABLE_TORCH over its stable ABI.
#pragma once

#ifdef POSENC_STABLE_TORCH

#include "torch/stable/tensor.h"

#else

// clang in C++20 reads the headers of PyTorch 1.13 in this order only.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on
#include <ATen/Parallel.h>

namespace posenc::ops {

// Of tensors that torch.export and torch.compile trace: there is no call yet.
inline bool has_symbolic_sizes(const at::Tensor& x) {
  return x.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

}  // namespace posenc::ops

#endif
