#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "posenc/weights/safetensors.h"

namespace posenc::weights {
namespace {

struct Entry {
  std::string_view name;
  int bits;
};

// In the order of the enum.
constexpr std::array<Entry, 22> kTypes = {{
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
}};
static_assert(kTypes.size() == static_cast<std::size_t>(ElementType::kU64) + 1);

}  // namespace

std::string_view element_type_name(ElementType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

int element_bits(ElementType type) { return kTypes[static_cast<std::size_t>(type)].bits; }

std::optional<std::uint64_t> byte_length(ElementType type, const Shape& shape) {
  auto bits = static_cast<std::uint64_t>(element_bits(type));
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(dim), &bits)) {
      return std::nullopt;
    }
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

const std::string* find_metadata(const Metadata& metadata, std::string_view key) {
  for (const auto& [name, text] : metadata) {
    if (name == key) return &text;
  }
  return nullptr;
}

}  // namespace posenc::weights
