#include "kernels/cpu/linear_attention_simd.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_attention_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/gemm-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::kTokenChunk;
using cpu::PhiPlan;
using cpu::row_floats;
using cpu::ScanRows;
using cpu::ScanScratch;
using cpu::ScanShape;
using cpu::Sees;

// Rows of the triangle at a time; a multiple of every target's vector.
constexpr std::size_t kRowBlock = 16;

std::size_t whole_vectors(std::size_t n) {
  const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>());
  return (n + lanes - 1) / lanes * lanes;
}

// Rows [count][row_floats(depth)] to [depth][kTokenChunk], with zeros up to the end of a vector.
void transpose_rows(const float* rows, std::size_t count, std::size_t depth, float* out) {
  const std::size_t stride = row_floats(depth);
  const std::size_t columns = whole_vectors(count);
  for (std::size_t c = 0; c < depth; ++c) {
    float* to = out + c * kTokenChunk;
    for (std::size_t r = 0; r < count; ++r) to[r] = rows[r * stride + c];
    std::fill(to + count, to + columns, 0.0f);
  }
}

void mask_scores(std::size_t first, std::size_t last, std::size_t count, Sees sees, float* scores) {
  for (std::size_t r = first; r < last; ++r) {
    float* row = scores + r * kTokenChunk;
    if (sees == Sees::kEarlier) std::fill(row + r + 1, row + count, 0.0f);
    if (sees == Sees::kLater) std::fill(row, row + r, 0.0f);
  }
}

// Adds what rows first .. last - 1 see in their own chunk. Of the triangle only the rows begin ..
// end are multiplied that some row of the block sees.
void add_block(const ScanShape& shape, const ScanRows& rows, std::size_t first, std::size_t last,
               std::size_t count, Sees sees, ScanScratch& scratch, float* out) {
  const std::size_t stride = row_floats(shape.columns);
  const std::size_t begin = sees == Sees::kLater ? first : 0;
  const std::size_t end = sees == Sees::kEarlier ? last : count;
  const std::size_t a_stride = row_floats(shape.depth);
  float* scores = scratch.scores.data();
  float* block = scores + first * kTokenChunk + begin;
  multiply<false>({rows.a + first * a_stride, a_stride, 1},
                  {scratch.transposed.data() + begin, kTokenChunk}, {block, kTokenChunk},
                  last - first, whole_vectors(end - begin), shape.depth);
  mask_scores(first, last, end, sees, scores);
  multiply<true>({block, kTokenChunk, 1}, {rows.w + begin * stride, stride},
                 {out + first * stride, stride}, last - first, whole_vectors(shape.columns),
                 end - begin);
}

// Row r once more, pair by pair: what it does not see may be NaN, and 0 times that would be NaN.
void apply_row(const ScanShape& shape, const ScanRows& rows, std::size_t r, std::size_t count,
               Sees sees, const float* state, float* out) {
  const std::size_t stride = row_floats(shape.columns);
  const std::size_t depth_stride = row_floats(shape.depth);
  const std::size_t columns = whole_vectors(shape.columns);
  const float* a = rows.a + r * depth_stride;
  std::fill_n(out, columns, 0.0f);
  for (std::size_t c = 0; c < shape.depth; ++c) add_scaled(a[c], state + c * stride, columns, out);
  const std::size_t begin = sees == Sees::kLater ? r : 0;
  const std::size_t end = sees == Sees::kEarlier ? r + 1 : count;
  for (std::size_t j = begin; j < end; ++j) {
    const float* b = rows.b + j * depth_stride;
    float score = 0.0f;
    for (std::size_t c = 0; c < shape.depth; ++c) score += a[c] * b[c];
    add_scaled(score, rows.w + j * stride, columns, out);
  }
}

void scan_apply_simd(const ScanShape& shape, const ScanRows& rows, std::size_t count, Sees sees,
                     const float* state, ScanScratch& scratch, float* out) {
  const std::size_t stride = row_floats(shape.columns);
  multiply<false>({rows.a, row_floats(shape.depth), 1}, {state, stride}, {out, stride}, count,
                  whole_vectors(shape.columns), shape.depth);
  if (sees == Sees::kNone) return;
  transpose_rows(rows.b, count, shape.depth, scratch.transposed.data());
  for (std::size_t first = 0; first < count; first += kRowBlock) {
    add_block(shape, rows, first, std::min(first + kRowBlock, count), count, sees, scratch, out);
  }
  for (std::size_t r = 0; r < count; ++r) {
    float* row = out + r * stride;
    if (all_finite(row, stride, 1, whole_vectors(shape.columns))) continue;
    apply_row(shape, rows, r, count, sees, state, row);
  }
}

void scan_accumulate_simd(const ScanShape& shape, const ScanRows& rows, std::size_t count,
                          ScanScratch& scratch, float* state) {
  const std::size_t stride = row_floats(shape.columns);
  const std::size_t columns = whole_vectors(shape.columns);
  const MatrixA a{rows.b, 1, row_floats(shape.depth)};
  const MatrixB b{rows.w, stride};
  if (count == 1) {  // a decoding step: the sum itself, once through memory
    multiply<true>(a, b, {state, stride}, shape.depth, columns, count);
    return;
  }
  // The chunk is summed by itself first: the error then grows with the number of chunks, not
  // tokens.
  float* product = scratch.product.data();
  multiply<false>(a, b, {product, stride}, shape.depth, columns, count);
  const hn::ScalableTag<float> d;
  for (std::size_t r = 0; r < shape.depth; ++r, state += stride, product += stride) {
    for (std::size_t c = 0; c < columns; c += hn::Lanes(d)) {
      hn::StoreU(hn::Add(hn::LoadU(d, state + c), hn::LoadU(d, product + c)), d, state + c);
    }
  }
}

void running_sums_simd(const float* rows, const float* weights, std::size_t count,
                       std::size_t channels, Sees sees, float* sum, float* out) {
  const std::size_t stride = row_floats(channels);
  const hn::ScalableTag<float> d;
  for (std::size_t c = 0; c < whole_vectors(channels); c += hn::Lanes(d)) {
    const auto before = hn::LoadU(d, sum + c);
    auto local = hn::Zero(d);
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t r = sees == Sees::kLater ? count - 1 - n : n;
      const auto weight = hn::Set(d, weights == nullptr ? 1.0f : weights[r]);
      local = hn::MulAdd(weight, hn::LoadU(d, rows + r * stride + c), local);
      hn::StoreU(hn::Add(before, local), d, out + r * stride + c);
    }
    hn::StoreU(hn::Add(before, local), d, sum + c);
  }
}

void phi_row_simd(const PhiPlan& plan, const float* x, std::size_t size, float* out) {
  for_each_vector(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    if (plan.relu) {  // not Max, which drops a NaN
      const auto positive = hn::IfThenZeroElse(hn::Lt(value, hn::Zero(d)), value);
      hn::StoreU(hn::Add(positive, hn::Set(d, plan.epsilon)), d, out + i);
      return;
    }
    const auto above = hn::Gt(value, hn::Zero(d));
    const auto low = fast_exp(d, hn::IfThenZeroElse(above, value));
    const auto high = hn::Add(value, hn::Set(d, 1.0f));
    hn::StoreU(hn::IfThenElse(above, high, low), d, out + i);
  });
}

void phi_slope_row_simd(const PhiPlan& plan, const float* x, std::size_t size, float* dx) {
  for_each_vector(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    const auto above = hn::Gt(value, hn::Zero(d));
    // 0 x is 0, but for a NaN; and e^x of what is not above 0.
    const auto below =
        plan.relu ? hn::Mul(hn::Zero(d), value) : fast_exp(d, hn::IfThenZeroElse(above, value));
    const auto slope = hn::IfThenElse(above, hn::Set(d, 1.0f), below);
    hn::StoreU(hn::Mul(slope, hn::LoadU(d, dx + i)), d, dx + i);
  });
}

float dot_rows_simd(const float* a, const float* b, std::size_t size) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < size; ++i) total += a[i] * b[i];
  return total;
}

void scale_row_simd(float factor, const float* x, std::size_t size, float* y) {
  for_each_vector(size, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, factor), hn::LoadU(d, x + i)), d, y + i);
  });
}

void add_scaled_row_simd(float factor, const float* x, std::size_t size, float* y) {
  for_each_vector(size, [&](auto d, std::size_t i) HWY_ATTR {
    const auto sum = hn::MulAdd(hn::Set(d, factor), hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    hn::StoreU(sum, d, y + i);
  });
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(scan_apply_simd);
HWY_EXPORT(scan_accumulate_simd);
HWY_EXPORT(running_sums_simd);
HWY_EXPORT(phi_row_simd);
HWY_EXPORT(phi_slope_row_simd);
HWY_EXPORT(dot_rows_simd);
HWY_EXPORT(scale_row_simd);
HWY_EXPORT(add_scaled_row_simd);

ScanScratch::ScanScratch(std::size_t channels)
    : transposed(channels * kTokenChunk),
      scores(kTokenChunk * kTokenChunk),
      product(channels * row_floats(channels)) {}

void scan_apply(const ScanShape& shape, const ScanRows& rows, std::size_t count, Sees sees,
                const float* state, ScanScratch& scratch, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(scan_apply_simd)(shape, rows, count, sees, state, scratch, out);
}
void scan_accumulate(const ScanShape& shape, const ScanRows& rows, std::size_t count,
                     ScanScratch& scratch, float* state) noexcept {
  HWY_DYNAMIC_DISPATCH(scan_accumulate_simd)(shape, rows, count, scratch, state);
}
void running_sums(const float* rows, const float* weights, std::size_t count, std::size_t channels,
                  Sees sees, float* sum, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(running_sums_simd)(rows, weights, count, channels, sees, sum, out);
}
void phi_row(const PhiPlan& plan, const float* x, std::size_t size, float* out) noexcept {
  HWY_DYNAMIC_DISPATCH(phi_row_simd)(plan, x, size, out);
}
void phi_slope_row(const PhiPlan& plan, const float* x, std::size_t size, float* dx) noexcept {
  HWY_DYNAMIC_DISPATCH(phi_slope_row_simd)(plan, x, size, dx);
}
float dot_rows(const float* a, const float* b, std::size_t size) noexcept {
  return HWY_DYNAMIC_DISPATCH(dot_rows_simd)(a, b, size);
}
void scale_row(float factor, const float* x, std::size_t size, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(scale_row_simd)(factor, x, size, y);
}
void add_scaled_row(float factor, const float* x, std::size_t size, float* y) noexcept {
  HWY_DYNAMIC_DISPATCH(add_scaled_row_simd)(factor, x, size, y);
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
