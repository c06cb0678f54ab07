// A residual sum and its LayerNorm in one pass over the rows, and their gradients:
//
//   sum = x + branch          y[r, c] = (sum[r, c] - mean[r]) inverse[r] weight[c] + bias[c]
//
// Sums and statistics are float32, branch and y of any storage type. Bound by memory: the forward moves x, branch, sum
// and y once, the backward dy, sum, dsum, dx and dbranch. The gradients of weight and bias are summed in an order that
// depends only on the shape: bitwise identical in every run.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.h"
#include "posenc/core/tensor_view.h"

namespace posenc::cuda {

// Matrices are [rows, columns] and dense, vectors of `columns` numbers.
struct ResidualNorm {
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // has_residual_norm()
  DType type = DType::kFloat32;
  float epsilon = 0.0f;
  const float* x = nullptr;
  const void* branch = nullptr;  // of `type`; null: the sum is x, and `sum` is not written
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* sum = nullptr;
  void* y = nullptr;         // of `type`
  float* mean = nullptr;     // [rows]
  float* inverse = nullptr;  // [rows], of the deviation
};

struct ResidualNormGradients {
  ResidualNorm forward;         // x is the sum here; mean, inverse and weight are read
  const void* dy = nullptr;     // of `type`
  const float* dsum = nullptr;  // what the sum gets from elsewhere; null: nothing
  float* dx = nullptr;
  void* dbranch = nullptr;    // dx, rounded to `type`; null: not wanted
  float* dvectors = nullptr;  // [2, columns], of bias and of weight
  void* workspace = nullptr;  // residual_norm_bytes()
};

// A row stays in the registers of a warp, four neighbouring numbers at a time.
constexpr bool has_residual_norm(std::int64_t columns) {
  return columns > 0 && columns % 4 == 0 && columns <= 1024;
}

Status residual_norm(const ResidualNorm& p, Stream stream) noexcept;
std::size_t residual_norm_bytes(const ResidualNorm& p);
Status residual_norm_backward(const ResidualNormGradients& p, Stream stream) noexcept;

}  // namespace posenc::cuda
