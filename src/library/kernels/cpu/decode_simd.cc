#include "kernels/cpu/decode_simd.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/decode_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::CacheRows;

template <class T>
HWY_INLINE const T* row_at(const CacheRows& rows, std::size_t j) {
  const std::ptrdiff_t offset =
      rows.offsets != nullptr ? rows.offsets[j] : static_cast<std::ptrdiff_t>(j) * rows.stride;
  return reinterpret_cast<const T*>(rows.data + offset);
}

// Fetches a row that comes a few kilobytes later: the hardware does not look past a page by itself.
template <class T>
HWY_INLINE void fetch_ahead(const CacheRows& rows, std::size_t j, std::size_t first_channel,
                            std::size_t channels) {
  constexpr std::size_t kLine = 64;
  const auto* row =
      reinterpret_cast<const std::byte*>(row_at<T>(rows, j + cpu::kRowsAhead) + first_channel);
  for (std::size_t i = 0; i < channels * sizeof(T); i += kLine) __builtin_prefetch(row + i);
}

// Q queries and R rows at once: a row is read and converted once for all queries, and there are sums
// enough in flight to hide the latency of an addition.
template <class T, std::size_t Q, std::size_t R>
HWY_INLINE void dot_rows_at(const CacheRows& rows, std::size_t j, const float* queries,
                            std::size_t query_stride, float* scores, std::size_t score_stride) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const std::size_t lanes = hn::Lanes(d);
  const T* row[R];
  hn::Vec<decltype(d)> sum[Q][R];
  for (std::size_t r = 0; r < R; ++r) {
    row[r] = row_at<T>(rows, j + r);
    fetch_ahead<T>(rows, j + r, 0, rows.dim);
    for (std::size_t q = 0; q < Q; ++q) sum[q][r] = hn::Zero(d);
  }
  std::size_t c = 0;
  for (; c + lanes <= rows.dim; c += lanes) {
    for (std::size_t r = 0; r < R; ++r) {
      const auto key = load_as_float(d, row[r] + c);
      for (std::size_t q = 0; q < Q; ++q) {
        sum[q][r] = hn::MulAdd(key, hn::LoadU(d, queries + q * query_stride + c), sum[q][r]);
      }
    }
  }
  for (std::size_t q = 0; q < Q; ++q) {
    for (std::size_t r = 0; r < R; ++r) {
      auto rest = hn::Zero(d1);
      for (std::size_t i = c; i < rows.dim; ++i) {
        rest = hn::MulAdd(load_as_float(d1, row[r] + i),
                          hn::LoadU(d1, queries + q * query_stride + i), rest);
      }
      scores[q * score_stride + j + r] =
          hn::GetLane(hn::SumOfLanes(d, sum[q][r])) + hn::GetLane(rest);
    }
  }
}

template <class T, std::size_t Q>
void dot_block(const CacheRows& rows, const float* queries, std::size_t query_stride, float* scores,
               std::size_t score_stride) {
  constexpr std::size_t kRows = Q == 1 ? 4 : 2;
  std::size_t j = 0;
  for (; j + kRows <= rows.count; j += kRows) {
    dot_rows_at<T, Q, kRows>(rows, j, queries, query_stride, scores, score_stride);
  }
  for (; j < rows.count; ++j) {
    dot_rows_at<T, Q, 1>(rows, j, queries, query_stride, scores, score_stride);
  }
}

// V vectors of channels stay in registers while all rows pass.
template <class T, std::size_t Q, std::size_t V, class D>
HWY_INLINE void add_block(D d, const CacheRows& rows, std::size_t c, const float* weights,
                          std::size_t weight_stride, float* sums, std::size_t sum_stride) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> sum[Q][V];
  for (std::size_t q = 0; q < Q; ++q) {
    for (std::size_t v = 0; v < V; ++v)
      sum[q][v] = hn::LoadU(d, sums + q * sum_stride + c + v * lanes);
  }
  for (std::size_t j = 0; j < rows.count; ++j) {
    const T* row = row_at<T>(rows, j) + c;
    fetch_ahead<T>(rows, j, c, V * lanes);
    for (std::size_t v = 0; v < V; ++v) {
      const auto value = load_as_float(d, row + v * lanes);
      for (std::size_t q = 0; q < Q; ++q) {
        sum[q][v] = hn::MulAdd(hn::Set(d, weights[q * weight_stride + j]), value, sum[q][v]);
      }
    }
  }
  for (std::size_t q = 0; q < Q; ++q) {
    for (std::size_t v = 0; v < V; ++v) {
      hn::StoreU(sum[q][v], d, sums + q * sum_stride + c + v * lanes);
    }
  }
}

template <class T, std::size_t Q>
void add_queries(const CacheRows& rows, const float* weights, std::size_t weight_stride,
                 float* sums, std::size_t sum_stride) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  constexpr std::size_t kWide = Q == 1 ? 8 : 4;
  std::size_t c = 0;
  for (; c + kWide * hn::Lanes(d) <= rows.dim; c += kWide * hn::Lanes(d)) {
    add_block<T, Q, kWide>(d, rows, c, weights, weight_stride, sums, sum_stride);
  }
  if (c + kWide / 2 * hn::Lanes(d) <= rows.dim) {
    add_block<T, Q, kWide / 2>(d, rows, c, weights, weight_stride, sums, sum_stride);
    c += kWide / 2 * hn::Lanes(d);
  }
  for (; c + hn::Lanes(d) <= rows.dim; c += hn::Lanes(d)) {
    add_block<T, Q, 1>(d, rows, c, weights, weight_stride, sums, sum_stride);
  }
  for (; c < rows.dim; ++c) {
    add_block<T, Q, 1>(d1, rows, c, weights, weight_stride, sums, sum_stride);
  }
}

// Calls body(T{}, block size, first query): queries in fours, then one by one.
template <class Body>
HWY_INLINE void for_query_blocks(DType dtype, std::size_t n, const Body& body) {
  with_cache_type(dtype, [&](auto tag) {
    std::size_t q = 0;
    for (; q + 4 <= n; q += 4) body(tag, std::integral_constant<std::size_t, 4>(), q);
    for (; q < n; ++q) body(tag, std::integral_constant<std::size_t, 1>(), q);
  });
}

void dot_rows_simd(const CacheRows& rows, const float* queries, std::size_t query_stride,
                   std::size_t n, float* scores, std::size_t score_stride) {
  for_query_blocks(rows.dtype, n, [&](auto tag, auto block, std::size_t q) {
    dot_block<decltype(tag), decltype(block)::value>(rows, queries + q * query_stride, query_stride,
                                                     scores + q * score_stride, score_stride);
  });
}

void add_weighted_rows_simd(const CacheRows& rows, const float* weights, std::size_t weight_stride,
                            std::size_t n, float* sums, std::size_t sum_stride) {
  for_query_blocks(rows.dtype, n, [&](auto tag, auto block, std::size_t q) {
    add_queries<decltype(tag), decltype(block)::value>(
        rows, weights + q * weight_stride, weight_stride, sums + q * sum_stride, sum_stride);
  });
}

cpu::SoftmaxRow softmax_row_of_simd(float* scores, std::size_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float maximum = count == 0 ? -kInfinity : *std::max_element(scores, scores + count);
  const float shift = maximum == -kInfinity ? 0.0f : maximum;
  double sum = 0.0;
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto e = fast_weight(d, hn::Sub(hn::LoadU(d, scores + i), hn::Set(d, shift)));
    hn::StoreU(e, d, scores + i);
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, e)));
  });
  return {maximum, static_cast<float>(sum)};
}

void sigmoid_row_simd(float* values, std::size_t count) {
  for_each_vector(count, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(fast_sigmoid(d, hn::LoadU(d, values + i)), d, values + i);
  });
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(dot_rows_simd);
HWY_EXPORT(add_weighted_rows_simd);
HWY_EXPORT(softmax_row_of_simd);
HWY_EXPORT(sigmoid_row_simd);

void dot_rows(const CacheRows& rows, const float* queries, std::size_t query_stride, std::size_t n,
              float* scores, std::size_t score_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(dot_rows_simd)(rows, queries, query_stride, n, scores, score_stride);
}
void add_weighted_rows(const CacheRows& rows, const float* weights, std::size_t weight_stride,
                       std::size_t n, float* sums, std::size_t sum_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(add_weighted_rows_simd)(rows, weights, weight_stride, n, sums, sum_stride);
}
SoftmaxRow softmax_row(float* scores, std::size_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(softmax_row_of_simd)(scores, count);
}
void sigmoid_row(float* values, std::size_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(sigmoid_row_simd)(values, count);
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
