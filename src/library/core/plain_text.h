// Sanitises untrusted text (names, configs, file contents) for messages and terminals: whole characters,
// valid UTF-8, and nothing that moves the cursor, hides text or reverses its direction.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace posenc {

bool is_utf8(std::string_view text);

// The UTF-8 character at the front of a text; length 0 where there is none.
struct Character {
  std::size_t length = 0;  // in bytes
  char32_t code = 0;
};
Character first_character(std::string_view text);
// Bytes of the UTF-8 character at the front; 0 where there is none.
std::size_t character_length(std::string_view text);
// Characters in a text; a byte that is not UTF-8 counts as one.
std::size_t character_count(std::string_view text);

// '?' in place of control characters (C0, DEL, C1), marks that change the direction of text, and bytes
// that are not UTF-8. Tabs and line breaks stay.
std::string printable(std::string_view text);
// The same on one line: tabs and line breaks become spaces.
std::string one_line(std::string_view text);
// The same for JSON, without loss: such characters become \u escapes.
std::string printable_json(std::string_view json);

// At most `longest` bytes (3 or more), cut between two characters, with "..." where something was cut.
std::string shortened(std::string_view text, std::size_t longest);

// For messages in buffers of a fixed size: in place, drops a character that the end of the buffer cut in
// two and replaces other bytes that are not UTF-8.
void repair_utf8(char* text) noexcept;

}  // namespace posenc
