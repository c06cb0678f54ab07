#include "kernels/cpu/rows_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace posenc::HWY_NAMESPACE {
namespace {

void row_to_float_simd(DType dtype, const void* from, std::size_t size, float* to) {
  with_cache_type(dtype, [&](auto tag) {
    const auto* row = static_cast<const decltype(tag)*>(from);
    for_each_vector(size, [&](auto d, std::size_t i)
                              HWY_ATTR { hn::StoreU(load_as_float(d, row + i), d, to + i); });
  });
}

void row_from_float_simd(DType dtype, const float* from, std::size_t size, void* to) {
  with_type(dtype, [&](auto tag) {
    auto* row = static_cast<decltype(tag)*>(to);
    for_each_vector(size, [&](auto d, std::size_t i)
                              HWY_ATTR { store_float(hn::LoadU(d, from + i), d, row + i); });
  });
}

}  // namespace
}  // namespace posenc::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace posenc::cpu {

HWY_EXPORT(row_to_float_simd);
HWY_EXPORT(row_from_float_simd);

void row_to_float(DType dtype, const void* from, std::size_t size, float* to) noexcept {
  HWY_DYNAMIC_DISPATCH(row_to_float_simd)(dtype, from, size, to);
}
void row_from_float(DType dtype, const float* from, std::size_t size, void* to) noexcept {
  HWY_DYNAMIC_DISPATCH(row_from_float_simd)(dtype, from, size, to);
}

}  // namespace posenc::cpu
#endif  // HWY_ONCE
