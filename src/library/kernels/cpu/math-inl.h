// exp, log1p, sigmoid and tanh on vectors of float32. Included once per target.
#if defined(POSENC_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_MATH_INL_H_
#undef POSENC_KERNELS_CPU_MATH_INL_H_
#else
#define POSENC_KERNELS_CPU_MATH_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// e^x for x <= 88, exactly 0 below -87 and so at -infinity; NaN stays NaN. x = n ln 2 + r with
// |r| <= ln(2)/2; e^r by its Taylor polynomial to r^6 (error below 2e-8 of the value), 2^n through the
// exponent bits.
template <class D>
HWY_INLINE hn::Vec<D> fast_exp(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto low = hn::Set(d, -87.0f);
  const auto below = hn::Lt(x, low);
  const auto clamped = hn::IfThenElse(below, low, x);  // Max would drop a NaN
  const auto n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  // ln 2 in two parts, so that the product with n loses nothing.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.0f / 720.0f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // A product, so that a NaN in p survives whatever NearestInt makes of it.
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::NearestInt(n), hn::Set(di, 127)));
  return hn::IfThenZeroElse(below, hn::Mul(p, hn::BitCast(d, power)));
}

// A weight, e^x for x relative to the largest score of a row or to its sum: exactly 0 below -64, where a million keys
// change no bit of the row. Products of what is left with values are normal numbers, which are many times faster.
template <class D>
HWY_INLINE hn::Vec<D> fast_weight(D d, hn::Vec<D> x) {
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -64.0f)), fast_exp(d, x));
}

// 1/(1 + e^-x), by e^-|x| so that nothing overflows.
template <class D>
HWY_INLINE hn::Vec<D> fast_sigmoid(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto e = fast_exp(d, hn::Neg(hn::Abs(x)));
  const auto positive = hn::Div(one, hn::Add(one, e));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(e, positive), positive);
}

// ln(1 + x) for x in [0, 1], as x times a polynomial (error below 1e-8 of the value, but for rounding).
template <class D>
HWY_INLINE hn::Vec<D> fast_log1p(D d, hn::Vec<D> x) {
  auto p = hn::Set(d, -0.00317605693f);
  p = hn::MulAdd(p, x, hn::Set(d, 0.0195425269f));
  p = hn::MulAdd(p, x, hn::Set(d, -0.0563736121f));
  p = hn::MulAdd(p, x, hn::Set(d, 0.105436237f));
  p = hn::MulAdd(p, x, hn::Set(d, -0.15269667f));
  p = hn::MulAdd(p, x, hn::Set(d, 0.196632742f));
  p = hn::MulAdd(p, x, hn::Set(d, -0.249516163f));
  p = hn::MulAdd(p, x, hn::Set(d, 0.333297105f));
  p = hn::MulAdd(p, x, hn::Set(d, -0.499998926f));
  p = hn::MulAdd(p, x, hn::Set(d, 1.0f));
  return hn::Mul(p, x);
}

// Products of many gates: 0 once they change no score. Arithmetic on denormal numbers is many times slower on some
// processors, and a product of two that are left is still normal. Gradients may be of any scale, so less of them goes.
constexpr float kFaded = 0x1.0p-60f;
constexpr float kFadedGradient = 0x1.0p-110f;
template <class D>
HWY_INLINE hn::Vec<D> without_faded(D d, hn::Vec<D> x, float limit = kFaded) {
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), hn::Set(d, limit)), x);
}
inline float without_faded(float x, float limit = kFaded) {
  return x < limit && x > -limit ? 0.0f : x;
}

// tanh, by e^-2|x|; near 0, where that would cancel, by its series to x^9 (error below 1e-8 of the value).
template <class D>
HWY_INLINE hn::Vec<D> fast_tanh(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f);
  const auto size = hn::Abs(x);
  const auto e = fast_exp(d, hn::Mul(hn::Set(d, -2.0f), size));
  const auto far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  const auto square = hn::Mul(x, x);
  auto p = hn::Set(d, 62.0f / 2835.0f);
  p = hn::MulAdd(p, square, hn::Set(d, -17.0f / 315.0f));
  p = hn::MulAdd(p, square, hn::Set(d, 2.0f / 15.0f));
  p = hn::MulAdd(p, square, hn::Set(d, -1.0f / 3.0f));
  const auto near = hn::MulAdd(hn::Mul(p, square), x, x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.25f)), near, far);
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
