#include "tokens/unicode.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/plain_text.h"
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

}  // namespace

CodePoint long_code_point_at(std::string_view text, std::size_t at) {
  const Character c = first_character(text.substr(at));
  if (c.length > 0) return {c.code, c.length};
  return {kInvalidByte + static_cast<unsigned char>(text[at]), 1};
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
