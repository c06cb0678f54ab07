// Sums over the rows of a matrix: a custom kernel on a GPU, libtorch on other devices and for double backward.
#pragma once

#include <ATen/ATen.h>

namespace posenc::ops {

// SUM_r y[r, c] of y [rows, columns], added up in float32 at least.
at::Tensor column_sums(const at::Tensor& y, at::ScalarType type);

}  // namespace posenc::ops
