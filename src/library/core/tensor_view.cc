#include "posenc/core/tensor_view.h"

#include <cmath>

namespace posenc {

std::uint16_t float_to_bfloat16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  const std::uint32_t odd = (bits >> 16) & 1u;
  return static_cast<std::uint16_t>((bits + 0x7FFFu + odd) >> 16);
}

std::uint16_t float_to_float16(float x) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::abs(x);
  if (std::isnan(x)) return static_cast<std::uint16_t>(sign | 0x7E00u);
  if (magnitude >= 65520.0f) return static_cast<std::uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x1.0p-14f) {  // subnormal: whole multiples of 2^-24
    return static_cast<std::uint16_t>(
        sign | static_cast<std::uint16_t>(std::nearbyint(magnitude * 0x1.0p24f)));
  }
  // Rebias the exponent from 127 to 15 and round the 13 bits that are dropped.
  const std::uint32_t rebased = (bits & 0x7FFFFFFFu) - (112u << 23);
  const std::uint32_t odd = (rebased >> 13) & 1u;
  return static_cast<std::uint16_t>(sign |
                                    static_cast<std::uint16_t>((rebased + 0xFFFu + odd) >> 13));
}

float float16_to_float(std::uint16_t bits) noexcept {
  const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 0x1F;
  const auto fraction = static_cast<float>(bits & 0x3FFu);
  if (exponent == 0) return sign * fraction * 0x1.0p-24f;
  if (exponent == 31) return fraction == 0.0f ? sign * INFINITY : NAN;
  return sign * std::ldexp(1.0f + fraction * 0x1.0p-10f, exponent - 15);
}

}  // namespace posenc
