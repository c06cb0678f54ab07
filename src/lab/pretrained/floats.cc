#include "pretrained/floats.h"

#include <bit>
#include <cstring>

#include "system/file_errors.h"

namespace posenc::pretrained {
namespace {

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0) {  // zero and what is below the smallest normal number: mantissa / 2^24
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const std::uint32_t widened = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

template <class Widen>
std::vector<float> widened(const std::vector<std::byte>& bytes, const Widen& widen) {
  std::vector<float> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = widen(bits);
  }
  return values;
}

}  // namespace

std::vector<float> read_floats(const weights::Reader& reader, const weights::TensorInfo& tensor) {
  using weights::ElementType;
  if (tensor.type == ElementType::kF32) {
    std::vector<float> values(tensor.size() / sizeof(float));
    reader.read(tensor, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  if (tensor.type == ElementType::kBf16) return widened(reader.read(tensor), from_bfloat16);
  if (tensor.type == ElementType::kF16) return widened(reader.read(tensor), from_float16);
  throw file_error(ErrorKind::kUnsupported, reader.path(), "'" + tensor.name + "'",
                   "must be F32, BF16 or F16", std::string(element_type_name(tensor.type)),
                   "convert the file first");
}

}  // namespace posenc::pretrained
