// Sums over the rows of a matrix, as gradients of biases need them:
//
//   sums[c] = SUM_r y[r, c]
//
// In float32, in an order that depends only on the shape: bitwise identical in every run. Bound by reading y once; a
// training step of a small model has twenty such sums.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.h"
#include "posenc/core/tensor_view.h"

namespace posenc::cuda {

struct ColumnSums {
  const void* y = nullptr;  // [rows, columns], dense
  DType type = DType::kFloat32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  float* sums = nullptr;      // [columns]
  void* workspace = nullptr;  // column_sums_bytes()
};

std::size_t column_sums_bytes(const ColumnSums& p);
Status column_sums(const ColumnSums& p, Stream stream) noexcept;

// The second half of such sums: of partial [shares, columns], in the order of the shares.
Status sum_shares(const float* partial, std::int64_t shares, std::int64_t columns, float* sums,
                  Stream stream) noexcept;

}  // namespace posenc::cuda
