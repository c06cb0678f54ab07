// Sums over the rows of a matrix, as gradients of biases and of norms need them:
//
//   sums[c] = SUM_r y[r, c]          weighted[c] = SUM_r y[r, c] (x[r, c] - mean[r]) inverse[r]
//
// In float32, in an order that follows from the shape alone: the same bits in every run. Bound by reading y
// (and x) once; a training step of a small model has thirty such sums.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.h"
#include "posenc/core/tensor_view.h"

namespace posenc::cuda {

struct ColumnSums {
  const void* y = nullptr;  // [rows, columns], dense
  DType type = DType::kFloat32;
  const float* x = nullptr;  // [rows, columns] of a norm's input; null: no weighted sums
  const float* mean = nullptr;
  const float* inverse = nullptr;  // of the deviation
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float* sums = nullptr;      // [columns]
  float* weighted = nullptr;  // [columns], with x
  void* workspace = nullptr;  // column_sums_bytes()
};

std::size_t column_sums_bytes(const ColumnSums& p);
Status column_sums(const ColumnSums& p, Stream stream) noexcept;

}  // namespace posenc::cuda
