#include "weights/messages.h"

#include <system_error>

namespace posenc::weights {

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  std::string text = "'";
  for (const char c : name.substr(0, kLongest)) {
    const auto code = static_cast<unsigned char>(c);
    text += code < 0x20 || code == 0x7f ? '?' : c;
  }
  return text + (name.size() > kLongest ? "...'" : "'");
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
