#include "weights/messages.h"

#include <algorithm>
#include <system_error>

#include "core/plain_text.h"

namespace posenc::weights {

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  std::string text = shortened(name, kLongest);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, '?');
  return "'" + one_line(text) + "'";
}

Error file_error(ErrorKind kind, const std::string& path, const std::string& subject,
                 const std::string& rule, const std::string& value, const std::string& hint) {
  return {kind, {.scope = path, .key = subject, .rule = rule, .value = value, .hint = hint}};
}

Error system_error(const std::string& path, const std::string& what, int error_number,
                   const std::string& hint) {
  const std::string why = std::generic_category().message(error_number);
  return file_error(ErrorKind::kIo, path, "", what + ": " + why, "", hint);
}

}  // namespace posenc::weights
