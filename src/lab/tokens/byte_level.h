// The byte-level alphabet of GPT-2: each byte as one printable character, which is how tokenizer.json
// writes tokens ("Ġthe" is " the").
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace posenc::tokens {

// The character of a byte: printable Latin-1 characters are themselves, the others U+0100 and up in order.
char32_t character_of(unsigned char byte);

std::string to_byte_level(std::string_view bytes);
// The bytes, or nothing where a character is none of the 256.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace posenc::tokens
