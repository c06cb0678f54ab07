// Rows of any storage type as float32 vectors. Included once per target.
#if defined(POSENC_KERNELS_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef POSENC_KERNELS_CPU_CONVERT_INL_H_
#undef POSENC_KERNELS_CPU_CONVERT_INL_H_
#else
#define POSENC_KERNELS_CPU_CONVERT_INL_H_
#endif

#include <hwy/highway.h>

#include "posenc/core/tensor_view.h"

#undef POSENC_HAS_FLOAT16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_NEON
#define POSENC_HAS_FLOAT16 1
#else
#define POSENC_HAS_FLOAT16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const hwy::bfloat16_t* from) {
  const hn::RebindToUnsigned<D> du32;
  const hn::Rebind<std::uint16_t, D> du16;
  const auto bits = hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du32, bits)));
}

#if POSENC_HAS_FLOAT16
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const hwy::float16_t* from) {
  const hn::Rebind<hwy::float16_t, D> df16;
  return hn::PromoteTo(d, hn::LoadU(df16, from));
}
#else
// Machines without the instruction: Highway's emulation reads infinity and NaN as finite numbers.
template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const hwy::float16_t* from) {
  const hn::RebindToUnsigned<D> du32;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<std::uint16_t, D> du16;
  const auto half =
      hn::PromoteTo(du32, hn::LoadU(du16, reinterpret_cast<const std::uint16_t*>(from)));
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du32, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(du32, 0x7FFFu)));
  // Rebias the exponent from 15 to 127; all ones stay all ones.
  const auto normal = hn::Add(magnitude, hn::Set(du32, 112u << 23));
  const auto special = hn::Add(magnitude, hn::Set(du32, 224u << 23));
  // Below 2^-14 the mantissa counts units of 2^-24: added to 2^-14, which is then taken away.
  const auto base = hn::Set(d, 0x1.0p-14f);
  const auto small =
      hn::BitCast(du32, hn::Sub(hn::BitCast(d, hn::Add(magnitude, hn::BitCast(du32, base))), base));
  const auto number = hn::BitCast(di32, magnitude);  // signed numbers compare on every target
  const auto is_small = hn::RebindMask(du32, hn::Lt(number, hn::Set(di32, 1 << 23)));
  const auto is_special = hn::RebindMask(du32, hn::Gt(number, hn::Set(di32, (31 << 23) - 1)));
  const auto bits = hn::IfThenElse(is_special, special, hn::IfThenElse(is_small, small, normal));
  return hn::BitCast(d, hn::Or(bits, sign));
}
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const std::int8_t* from) {
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<std::int8_t, D> di8;
  return hn::ConvertTo(d, hn::PromoteTo(di32, hn::LoadU(di8, from)));
}

template <class D>
HWY_INLINE void store_float(hn::Vec<D> v, D d, float* to) {
  hn::StoreU(v, d, to);
}

// Round to nearest, ties to even, by hand: Highway's own conversion cuts in the releases that
// distributions carry.
template <class D>
HWY_INLINE void store_float(hn::Vec<D> v, D /*d*/, hwy::bfloat16_t* to) {
  const hn::RebindToUnsigned<D> du32;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<std::uint16_t, D> du16;
  const auto bits = hn::BitCast(du32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1u));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du32, 0x7FFFu)), odd);
  const auto quiet_nan = hn::Or(bits, hn::Set(du32, 0x400000u));
  const auto is_nan = hn::RebindMask(du32, hn::IsNaN(v));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet_nan, rounded));
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, high)), du16,
             reinterpret_cast<std::uint16_t*>(to));
}

#if POSENC_HAS_FLOAT16
template <class D>
HWY_INLINE void store_float(hn::Vec<D> v, D /*d*/, hwy::float16_t* to) {
  const hn::Rebind<hwy::float16_t, D> df16;
  hn::StoreU(hn::DemoteTo(df16, v), df16, to);
}
#else
// Machines without the instruction: Highway's emulation cuts as well.
template <class D>
HWY_INLINE void store_float(hn::Vec<D> v, D d, hwy::float16_t* to) {
  const hn::RebindToUnsigned<D> du32;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<std::uint16_t, D> du16;
  const auto magnitude = hn::Abs(v);
  const auto bits = hn::BitCast(du32, magnitude);
  const auto sign = hn::ShiftRight<16>(hn::AndNot(bits, hn::BitCast(du32, v)));
  // Rebias the exponent from 127 to 15, round the 13 bits that are dropped.
  const auto rebased = hn::Sub(bits, hn::Set(du32, 112u << 23));
  const auto odd = hn::And(hn::ShiftRight<13>(rebased), hn::Set(du32, 1u));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(rebased, hn::Set(du32, 0xFFFu)), odd));
  // Below 2^-14: adding one half rounds to multiples of 2^-24, the unit of subnormals.
  const auto half = hn::Set(d, 0.5f);
  const auto small = hn::Sub(hn::BitCast(du32, hn::Add(magnitude, half)), hn::BitCast(du32, half));
  const auto is_small = hn::RebindMask(du32, hn::Lt(magnitude, hn::Set(d, 0x1.0p-14f)));
  const auto is_large = hn::RebindMask(du32, hn::Ge(magnitude, hn::Set(d, 65520.0f)));
  const auto is_nan = hn::RebindMask(du32, hn::IsNaN(v));
  auto result = hn::IfThenElse(is_small, small, normal);
  result = hn::IfThenElse(is_large, hn::Set(du32, 0x7C00u), result);
  result = hn::Or(hn::IfThenElse(is_nan, hn::Set(du32, 0x7E00u), result), sign);
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, result)), du16,
             reinterpret_cast<std::uint16_t*>(to));
}
#endif

// Calls body(T{}) with the element type of the storage, which is floating-point.
template <class Body>
HWY_INLINE void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kBfloat16:
      return body(hwy::bfloat16_t{});
    case DType::kFloat16:
      return body(hwy::float16_t{});
    case DType::kInt8:
      return;  // refused where arguments are checked
  }
}

// The same of rows that are only read, which may be int8.
template <class Body>
HWY_INLINE void with_cache_type(DType dtype, const Body& body) {
  if (dtype == DType::kInt8) return body(std::int8_t{});
  with_type(dtype, body);
}

// Calls body(tag, index) over 0 .. count-1: whole vectors, then single lanes. One body serves both.
template <class Body>
HWY_INLINE void for_each_vector(std::size_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) body(d, i);
  for (; i < count; ++i) body(d1, i);
}

}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
