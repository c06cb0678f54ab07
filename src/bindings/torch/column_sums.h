// Sums over the rows of a matrix: a kernel of ours on a GPU, libtorch's elsewhere and where the sums themselves are
// differentiated.
#pragma once

#include <ATen/ATen.h>

#include <tuple>

namespace posenc::ops {

// SUM_r y[r, c] of y [rows, columns], added up in float32 at least.
at::Tensor column_sums(const at::Tensor& y, at::ScalarType type);

// Whether a norm's gradients have a kernel for inputs like x; the two sums below are for those alone:
// SUM_r y[r, c] and SUM_r y[r, c] (x[r, c] - mean[r]) inverse[r].
bool has_own_column_sums(const at::Tensor& x);
std::tuple<at::Tensor, at::Tensor> normalized_column_sums(const at::Tensor& y, const at::Tensor& x,
                                                          const at::Tensor& mean,
                                                          const at::Tensor& inverse);

}  // namespace posenc::ops
