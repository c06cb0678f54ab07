// UTF-8 and the character classes of the tokenizers' patterns.
#pragma once

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

// The character at byte `at`, which must be below text.size().
CodePoint code_point_at(std::string_view text, std::size_t at);
void append_utf8(char32_t value, std::string& text);

enum class CharacterKind : std::uint8_t {
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s: the property White_Space
  kOther,
};
CharacterKind kind_of(char32_t value);

// Normalization Form C (Unicode Standard Annex 15). Returns the text itself where it is normalised.
std::string to_nfc(std::string_view text);

}  // namespace posenc::tokens
