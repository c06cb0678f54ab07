// UTF-8 and the character classes of the tokenizers' patterns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace posenc::tokens {

// A byte that is no part of valid UTF-8 stands for itself as kInvalidByte + byte, so that any bytes can
// be split, normalised and written back unchanged.
inline constexpr char32_t kInvalidByte = 0x110000;

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 1;
};

CodePoint long_code_point_at(std::string_view text, std::size_t at);  // not of ASCII
// The character at byte `at`, which must be below text.size().
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  return first < 0x80 ? CodePoint{first, 1} : long_code_point_at(text, at);
}
void append_utf8(char32_t value, std::string& text);

enum class CharacterKind : std::uint8_t {
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s: the property White_Space
  kOther,
};
CharacterKind long_kind_of(char32_t value);  // not of ASCII
constexpr CharacterKind ascii_kind(char32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CharacterKind::kLetter;
  if (c >= '0' && c <= '9') return CharacterKind::kNumber;
  return c == ' ' || (c >= 0x9 && c <= 0xD) ? CharacterKind::kSpace : CharacterKind::kOther;
}
inline constexpr auto kAsciiKinds = [] {
  std::array<CharacterKind, 0x80> kinds{};
  for (char32_t c = 0; c < kinds.size(); ++c) kinds[c] = ascii_kind(c);
  return kinds;
}();
inline CharacterKind kind_of(char32_t value) {
  return value < kAsciiKinds.size() ? kAsciiKinds[value] : long_kind_of(value);
}

// Normalization Form C (Unicode Standard Annex 15). Returns the text itself where it is normalised.
std::string to_nfc(std::string_view text);

}  // namespace posenc::tokens
