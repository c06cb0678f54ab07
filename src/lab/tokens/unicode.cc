#include "tokens/unicode.h"

#include <algorithm>
#include <array>
#include <span>

#include "tokens/unicode_tables.h"

namespace posenc::tokens {
namespace {

bool in_ranges(std::span<const CodePointRange> ranges, char32_t value) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), value,
                       [](char32_t v, const CodePointRange& range) { return v < range.first; });
  return after != ranges.begin() && value <= std::prev(after)->last;
}

bool is_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

CharacterKind looked_up(char32_t value) {
  if (is_space(value)) return CharacterKind::kSpace;
  if (in_ranges(letter_ranges(), value)) return CharacterKind::kLetter;
  if (in_ranges(number_ranges(), value)) return CharacterKind::kNumber;
  return CharacterKind::kOther;
}

constexpr std::size_t kTabled = 0x800;  // Latin, Greek, Cyrillic, Hebrew, Arabic

const std::array<CharacterKind, kTabled>& first_kinds() {
  static const auto kKinds = [] {
    std::array<CharacterKind, kTabled> all{};
    for (std::size_t c = 0; c < kTabled; ++c) all[c] = looked_up(static_cast<char32_t>(c));
    return all;
  }();
  return kKinds;
}

// Bytes of the sequence that this byte leads, or 0, and the bits of the character that it holds.
struct Lead {
  std::size_t bytes = 0;
  char32_t bits = 0;
  char32_t least = 0;  // smaller characters have a shorter form
};
Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, byte & 0x1Fu, 0x80};
  if (byte >= 0xE0 && byte <= 0xEF) return {3, byte & 0x0Fu, 0x800};
  if (byte >= 0xF0 && byte <= 0xF4) return {4, byte & 0x07u, 0x10000};
  return {};
}

}  // namespace

CodePoint long_code_point_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const CodePoint invalid{kInvalidByte + first, 1};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0 || at + lead.bytes > text.size()) return invalid;
  char32_t value = lead.bits;
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0u) != 0x80u) return invalid;
    value = (value << 6) | (byte & 0x3Fu);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < lead.least || value > 0x10FFFF || surrogate) return invalid;
  return {value, lead.bytes};
}

void append_utf8(char32_t value, std::string& text) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (value >= kInvalidByte) return put(value - kInvalidByte);
  if (value < 0x80) return put(value);
  if (value < 0x800) {
    put(0xC0 | (value >> 6));
  } else if (value < 0x10000) {
    put(0xE0 | (value >> 12));
    put(0x80 | ((value >> 6) & 0x3F));
  } else {
    put(0xF0 | (value >> 18));
    put(0x80 | ((value >> 12) & 0x3F));
    put(0x80 | ((value >> 6) & 0x3F));
  }
  put(0x80 | (value & 0x3F));
}

CharacterKind long_kind_of(char32_t value) {
  return value < kTabled ? first_kinds()[value] : looked_up(value);
}

}  // namespace posenc::tokens
