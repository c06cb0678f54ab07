#include "tasks/words.h"

#include <fmt/format.h>

#include "posenc/core/error.h"

namespace posenc::tasks {
namespace {

std::string letter(std::int64_t index, std::int64_t count, char first) {
  if (count <= 26) return {static_cast<char>(first + index)};
  return fmt::format("{}{}", first == 'A' ? 'C' : 's', index);
}

}  // namespace

std::string class_name(std::int64_t index, std::int64_t classes) {
  return letter(index, classes, 'A');
}
std::string letter_name(std::int64_t index, std::int64_t letters) {
  return letter(index, letters, 'a');
}

std::string number_name(std::int32_t token, std::int32_t first_number, const TaskInfo& info) {
  if (token >= first_number && token < info.vocabulary) return std::to_string(token - first_number);
  throw Error(ErrorKind::kOutOfRange,
              {.scope = info.name,
               .key = "token",
               .rule = fmt::format("must be in the vocabulary of {}", info.vocabulary),
               .value = std::to_string(token)});
}

std::string byte_name(std::int32_t byte) {
  if (byte == ' ') return "\\s";
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\\') return "\\\\";
  if (byte > ' ' && byte < 0x7F) return {static_cast<char>(byte)};
  return fmt::format("\\x{:02x}", byte);
}

}  // namespace posenc::tasks
