// Sums over the rows of a matrix: a kernel of ours on a GPU, libtorch's elsewhere and where the sums themselves are
// differentiated.
#pragma once

#include <ATen/ATen.h>

namespace posenc::ops {

// SUM_r y[r, c] of y [rows, columns], added up in float32 at least.
at::Tensor column_sums(const at::Tensor& y, at::ScalarType type);

}  // namespace posenc::ops
