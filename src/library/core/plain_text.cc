#include "core/plain_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace posenc {
namespace {

// Length by the first byte, the bits it carries, and the least code that may be written this long.
struct Form {
  std::size_t length = 0;
  char32_t bits = 0;
  char32_t least = 0;
};

Form form_of(unsigned char first) {
  if (first < 0x80) return {1, first, 0};
  if ((first & 0xe0U) == 0xc0U) return {2, first & 0x1fU, 0x80};
  if ((first & 0xf0U) == 0xe0U) return {3, first & 0x0fU, 0x800};
  if ((first & 0xf8U) == 0xf0U) return {4, first & 0x07U, 0x10000};
  return {};
}

}  // namespace

Character first_character(std::string_view text) {
  if (text.empty()) return {};
  const Form form = form_of(static_cast<unsigned char>(text.front()));
  if (form.length == 0 || form.length > text.size()) return {};
  char32_t code = form.bits;
  for (std::size_t k = 1; k < form.length; ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if ((byte & 0xc0U) != 0x80U) return {};
    code = code << 6U | (byte & 0x3fU);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < form.least || code > 0x10ffff || surrogate) return {};
  return {form.length, code};
}

namespace {

// U+2028 and U+2029 end a line in JavaScript and in some terminals.
bool is_hidden(char32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code <= 0x9f);
  const bool direction = code == 0x061c || code == 0x200e || code == 0x200f ||
                         (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return control || direction || code == 0x2028 || code == 0x2029;
}

template <class Replace>
std::string replaced(std::string_view text, const Replace& replace) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const std::size_t length = c.length == 0 ? 1 : c.length;
    if (c.length == 0) {
      out += '?';
    } else if (is_hidden(c.code)) {
      out += replace(c.code);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

bool is_white(char32_t code) { return code == '\n' || code == '\t'; }

// Is this the front of a character whose rest is missing?
bool is_cut(std::string_view text) {
  const Form form = form_of(static_cast<unsigned char>(text.front()));
  if (form.length <= text.size()) return false;
  for (const char c : text.substr(1)) {
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U) return false;
  }
  return true;
}

}  // namespace

std::size_t character_length(std::string_view text) { return first_character(text).length; }

std::size_t character_count(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count)
    text.remove_prefix(std::max<std::size_t>(1, character_length(text)));
  return count;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  return replaced(text, [](char32_t code) {
    return std::string(1, is_white(code) ? static_cast<char>(code) : '?');
  });
}

std::string one_line(std::string_view text) {
  return replaced(text, [](char32_t code) {
    return std::string(1, is_white(code) || code == '\r' ? ' ' : '?');
  });
}

std::string printable_json(std::string_view json) {
  return replaced(json, [](char32_t code) {
    return is_white(code) ? std::string(1, static_cast<char>(code))
                          : fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
  });
}

std::string shortened(std::string_view text, std::size_t longest) {
  constexpr std::string_view kDots = "...";
  if (text.size() <= longest) return std::string(text);
  std::size_t end = 0;
  for (std::size_t next = 0; next + kDots.size() <= longest;) {
    end = next;
    next += std::max<std::size_t>(1, character_length(text.substr(next)));
  }
  return std::string(text.substr(0, end)) + std::string(kDots);
}

void repair_utf8(char* text) noexcept {
  std::string_view rest = text;
  while (!rest.empty()) {
    char* at = text + (rest.data() - text);
    const std::size_t length = character_length(rest);
    if (length == 0 && is_cut(rest)) {
      *at = '\0';
      return;
    }
    if (length == 0) *at = '?';
    rest.remove_prefix(length == 0 ? 1 : length);
  }
}

}  // namespace posenc
