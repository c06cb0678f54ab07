#include "kernels/cpu/rope_simd.h"

#include <cstring>

#include "kernels/cpu/rows_simd.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

using cpu::RopeAngles;
using cpu::RopeRowPlan;

// (x, y) -> (x c - y s, x s + y c), x and y half a window apart.
template <class T>
HWY_INLINE void turn_half(const RopeRowPlan& plan, const T* in, T* out, RopeAngles angles) {
  const T* second = in + plan.pairs;
  T* second_out = out + plan.pairs;
  const float sign = plan.sign;
  for_each_vector(plan.pairs, [&](auto d, std::size_t p) HWY_ATTR {
    const auto c = hn::LoadU(d, angles.cos + p);
    const auto s = hn::Mul(hn::LoadU(d, angles.sin + p), hn::Set(d, sign));
    const auto x = load_as_float(d, in + p);
    const auto y = load_as_float(d, second + p);
    store_float(hn::NegMulAdd(y, s, hn::Mul(x, c)), d, out + p);
    store_float(hn::MulAdd(x, s, hn::Mul(y, c)), d, second_out + p);
  });
}

// Neighbouring channels: x * cos + swapped(x) * (-sin, +sin). A target of single lanes has nothing to
// swap within a vector and takes the two channels one by one.
template <class T>
HWY_INLINE void turn_interleaved(const RopeRowPlan& plan, const T* in, T* out, RopeAngles angles) {
  const float sign = plan.sign;
  const auto body = [&](auto d, std::size_t i) HWY_ATTR {
    const auto x = load_as_float(d, in + i);
#if HWY_TARGET == HWY_SCALAR
    const auto y = load_as_float(d, in + i + 1);
    const auto c = hn::LoadU(d, angles.cos + i);
    const auto s = hn::Mul(hn::LoadU(d, angles.sin + i + 1), hn::Set(d, sign));
    store_float(hn::NegMulAdd(y, s, hn::Mul(x, c)), d, out + i);
    store_float(hn::MulAdd(x, s, hn::Mul(y, c)), d, out + i + 1);
#else
    const auto c = hn::LoadU(d, angles.cos + i);
    const auto s = hn::Mul(hn::LoadU(d, angles.sin + i), hn::Set(d, sign));
    store_float(hn::MulAdd(hn::Reverse2(d, x), s, hn::Mul(x, c)), d, out + i);
#endif
  };
  const hn::ScalableTag<float> full;
  const hn::CappedTag<float, 2> one_pair;
  const std::size_t step = HWY_MAX(hn::Lanes(full), 2);
  std::size_t i = 0;
  for (; i + step <= 2 * plan.pairs; i += step) body(full, i);
  for (; i < 2 * plan.pairs; i += 2) body(one_pair, i);
}

template <class T>
void turn_typed(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
                std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
                std::size_t angle_stride) {
  const std::size_t tail = plan.offset + 2 * plan.pairs;
  for (std::size_t r = 0; r < count; ++r) {
    const T* row = reinterpret_cast<const T*>(in + static_cast<std::ptrdiff_t>(r) * in_stride);
    T* row_out = reinterpret_cast<T*>(out + static_cast<std::ptrdiff_t>(r) * out_stride);
    if (row != row_out) {
      std::memcpy(row_out, row, plan.offset * sizeof(T));
      std::memcpy(row_out + tail, row + tail, (plan.channels - tail) * sizeof(T));
    }
    const RopeAngles at{angles.cos + r * angle_stride, angles.sin + r * angle_stride};
    if (plan.interleaved) {
      turn_interleaved(plan, row + plan.offset, row_out + plan.offset, at);
    } else {
      turn_half(plan, row + plan.offset, row_out + plan.offset, at);
    }
  }
}

void turn_rows_simd(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
                    std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
                    std::size_t angle_stride) {
  with_type(plan.dtype, [&](auto tag) {
    turn_typed<decltype(tag)>(plan, in, in_stride, out, out_stride, count, angles, angle_stride);
  });
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(turn_rows_simd);

void expand_angles(const RopeRowPlan& plan, const float* cos, const float* sin, float* cos_out,
                   float* sin_out) noexcept {
  for (std::size_t p = 0; p < plan.pairs; ++p) {
    if (plan.interleaved) {
      cos_out[2 * p] = cos_out[2 * p + 1] = cos[p];
      sin_out[2 * p] = -sin[p];
      sin_out[2 * p + 1] = sin[p];
    } else {
      cos_out[p] = cos[p];
      sin_out[p] = sin[p];
    }
  }
}

void turn_rows(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
               std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
               std::size_t angle_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(turn_rows_simd)
  (plan, in, in_stride, out, out_stride, count, angles, angle_stride);
}

void add_frequency_gradient(const RopeRowPlan& plan, const std::byte* x, const std::byte* dy,
                            RopeAngles angles, float* scratch, float position,
                            float* gradient) noexcept {
  const std::size_t start = plan.offset * dtype_size(plan.dtype);
  row_to_float(plan.dtype, x + start, 2 * plan.pairs, scratch);
  row_to_float(plan.dtype, dy + start, 2 * plan.pairs, scratch + 2 * plan.pairs);
  const std::size_t step = plan.interleaved ? 2 : 1;
  const std::size_t apart = plan.interleaved ? 1 : plan.pairs;
  const float* dy_row = scratch + 2 * plan.pairs;
  for (std::size_t p = 0; p < plan.pairs; ++p) {
    const std::size_t first = step * p;
    const float c = angles.cos[first];
    const float s = angles.sin[plan.interleaved ? first + 1 : first];
    const float y1 = scratch[first] * c - scratch[first + apart] * s;
    const float y2 = scratch[first] * s + scratch[first + apart] * c;
    gradient[p] += position * (y1 * dy_row[first + apart] - y2 * dy_row[first]);
  }
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
