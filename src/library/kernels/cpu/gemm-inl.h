// The matrix product of the attention kernels: C (+)= A B on tiles that fit into the cache.
//
// A is read one element at a time and broadcast, so its rows and columns may have any stride: the same
// loop serves A and its transpose. B and C are row-major with whole vectors per row. Included once per
// target.
#if defined(POSENC_KERNELS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_GEMM_INL_H_
#undef POSENC_KERNELS_CPU_GEMM_INL_H_
#else
#define POSENC_KERNELS_CPU_GEMM_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct MatrixA {
  const float* data;
  std::size_t row_stride;
  std::size_t column_stride;
};
struct MatrixB {
  const float* data;
  std::size_t row_stride;
};
struct MatrixC {
  float* data;
  std::size_t row_stride;
};

// Registers: kRows x kVectors sums, the vectors of a row of B and one broadcast must fit.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kRows = 8;
inline constexpr int kVectors = 2;
#else
inline constexpr int kRows = 4;
inline constexpr int kVectors = 2;
#endif

template <int R, int V, bool kAccumulate>
HWY_INLINE void multiply_block(const MatrixA& a, const MatrixB& b, const MatrixC& c,
                               std::size_t depth) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  }
  const float* row = b.data;
  const float* column = a.data;
  for (std::size_t k = 0; k < depth; ++k, row += b.row_stride, column += a.column_stride) {
    hn::Vec<decltype(d)> value[V];
    for (int v = 0; v < V; ++v) value[v] = hn::LoadU(d, row + static_cast<std::size_t>(v) * lanes);
    for (int r = 0; r < R; ++r) {
      const auto factor = hn::Set(d, column[static_cast<std::size_t>(r) * a.row_stride]);
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(factor, value[v], sum[r][v]);
    }
  }
  // The product is summed before it is added: C may hold a sum over a million rows.
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      float* at =
          c.data + static_cast<std::size_t>(r) * c.row_stride + static_cast<std::size_t>(v) * lanes;
      hn::StoreU(kAccumulate ? hn::Add(hn::LoadU(d, at), sum[r][v]) : sum[r][v], d, at);
    }
  }
}

template <int V, bool kAccumulate>
HWY_INLINE void multiply_panel(MatrixA a, const MatrixB& b, MatrixC c, std::size_t rows,
                               std::size_t depth) {
  const auto step = [&](auto count) HWY_ATTR {
    constexpr int kCount = decltype(count)::value;
    while (rows >= kCount) {
      multiply_block<kCount, V, kAccumulate>(a, b, c, depth);
      a.data += kCount * a.row_stride;
      c.data += kCount * c.row_stride;
      rows -= kCount;
    }
  };
  step(std::integral_constant<int, kRows>());
  step(std::integral_constant<int, 2>());
  step(std::integral_constant<int, 1>());
}

// `columns` is a multiple of the vector.
template <bool kAccumulate>
HWY_INLINE void multiply(const MatrixA& a, MatrixB b, MatrixC c, std::size_t rows,
                         std::size_t columns, std::size_t depth) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  while (columns >= kVectors * lanes) {
    multiply_panel<kVectors, kAccumulate>(a, b, c, rows, depth);
    b.data += kVectors * lanes;
    c.data += kVectors * lanes;
    columns -= kVectors * lanes;
  }
  if (columns > 0) multiply_panel<1, kAccumulate>(a, b, c, rows, depth);
}

// Whether `count` rows of whole vectors hold neither NaN nor infinity: 0 x is NaN for those alone.
inline bool all_finite(const float* rows, std::size_t stride, std::size_t count,
                       std::size_t columns) {
  const hn::ScalableTag<float> d;
  auto sum = hn::Zero(d);
  for (std::size_t r = 0; r < count; ++r, rows += stride) {
    for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
      sum = hn::MulAdd(hn::Zero(d), hn::LoadU(d, rows + c), sum);
    }
  }
  return hn::AllFalse(d, hn::IsNaN(sum));
}

// y += factor x over whole vectors.
inline void add_scaled(float factor, const float* x, std::size_t columns, float* y) {
  const hn::ScalableTag<float> d;
  for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
    hn::StoreU(hn::MulAdd(hn::Set(d, factor), hn::LoadU(d, x + c), hn::LoadU(d, y + c)), d, y + c);
  }
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
