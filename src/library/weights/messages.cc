#include "weights/messages.h"

#include <algorithm>

#include "core/plain_text.h"

namespace posenc::weights {

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  std::string text = shortened(name, kLongest);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, '?');
  return "'" + one_line(text) + "'";
}

}  // namespace posenc::weights
