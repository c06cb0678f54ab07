#include "tokens/byte_level.h"

#include <array>

#include "tokens/unicode.h"

namespace posenc::tokens {
namespace {

constexpr std::size_t kCharacters = 0x100 + 68;  // 68 bytes are not printable

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kCharacters> byte{};  // by character; -1: none
};

Alphabet make_alphabet() {
  Alphabet all;
  all.byte.fill(-1);
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
    const char32_t character = printable ? static_cast<char32_t>(b) : next++;
    all.character[static_cast<std::size_t>(b)] = character;
    all.byte[character] = b;
  }
  return all;
}

const Alphabet& alphabet() {
  static const Alphabet kAlphabet = make_alphabet();
  return kAlphabet;
}

}  // namespace

char32_t character_of(unsigned char byte) { return alphabet().character[byte]; }

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_utf8(character_of(static_cast<unsigned char>(c)), text);
  return text;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    const int byte = next.value < kCharacters ? alphabet().byte[next.value] : -1;
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    at += next.bytes;
  }
  return bytes;
}

}  // namespace posenc::tokens
