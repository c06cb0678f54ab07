// The SIMD part of decoding: a few queries against a long cache, which is read once, in its storage type.
#pragma once

#include <cstddef>

#include "posenc/core/tensor_view.h"

namespace posenc::cpu {

// How many rows ahead of the one in use memory is fetched.
inline constexpr std::size_t kRowsAhead = 16;

// Rows of a key or value cache: `count` of them, `stride` bytes apart or at `offsets` bytes.
struct CacheRows {
  DType dtype;
  const std::byte* data;
  std::ptrdiff_t stride;
  std::size_t count;
  std::size_t dim;
  const std::ptrdiff_t* offsets = nullptr;  // [count + kRowsAhead], of a paged cache
};

// scores[q * score_stride + j] = <queries[q], row j>; queries are [n][query_stride] float32.
void dot_rows(const CacheRows& rows, const float* queries, std::size_t query_stride, std::size_t n,
              float* scores, std::size_t score_stride) noexcept;

// sums[q * sum_stride + c] += SUM_j weights[q * weight_stride + j] * row j[c].
void add_weighted_rows(const CacheRows& rows, const float* weights, std::size_t weight_stride,
                       std::size_t n, float* sums, std::size_t sum_stride) noexcept;

struct SoftmaxRow {
  float maximum;  // -infinity where nothing is seen
  float sum;
};
// exp(score - maximum) in place.
SoftmaxRow softmax_row(float* scores, std::size_t count) noexcept;

// 1 / (1 + exp(-x)) in place.
void sigmoid_row(float* values, std::size_t count) noexcept;

}  // namespace posenc::cpu
