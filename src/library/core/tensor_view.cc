#include "posenc/core/tensor_view.h"

#include <cmath>
#include <string>
#include <utility>

#include "posenc/core/error.h"

namespace posenc {
namespace {

std::string text_of(const TensorShape& shape) {
  std::string text;
  for (const std::int64_t size : shape) {
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  }
  return text + "]";
}

[[noreturn]] void fail(ErrorKind kind, std::string key, std::string rule, std::string value) {
  throw Error(kind, {.scope = "tensor_view",
                     .key = std::move(key),
                     .rule = std::move(rule),
                     .value = std::move(value)});
}

}  // namespace

void check_dense_size(std::size_t size, const TensorShape& shape) {
  std::uint64_t elements = 1;
  bool fits = true;
  for (const std::int64_t length : shape) {
    if (length < 0) fail(ErrorKind::kOutOfRange, "shape", "must not be negative", text_of(shape));
    fits = fits && !__builtin_mul_overflow(elements, static_cast<std::uint64_t>(length), &elements);
  }
  if (fits && elements == size) return;
  const std::string wanted = fits ? std::to_string(elements) : "more than 2^64";
  fail(ErrorKind::kWrongLength, "elements",
       "must be " + wanted + " for the shape " + text_of(shape), std::to_string(size));
}

void check_half_type(DType dtype) {
  if (dtype_size(dtype) == 2) return;
  fail(ErrorKind::kWrongType, "dtype", "of 16-bit elements must be bfloat16 or float16",
       dtype_name(dtype));
}

void check_token_range(std::int64_t first, std::int64_t count, std::int64_t tokens) {
  if (first >= 0 && count >= 0 && first <= tokens && count <= tokens - first) return;
  fail(ErrorKind::kOutOfRange, "token_range",
       "must be within the " + std::to_string(tokens) + " tokens",
       std::to_string(count) + " from token " + std::to_string(first));
}

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
