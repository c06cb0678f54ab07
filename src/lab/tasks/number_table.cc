#include "tasks/number_table.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/strings.h"

namespace posenc::tasks {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// 12, 0x7f, 1.5e3, 7UL: whatever is written like a number.
std::string_view after_number(std::string_view text) {
  const auto part_of_number = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
  };
  const auto end = std::find_if_not(text.begin(), text.end(), part_of_number);
  return text.substr(end - text.begin());
}

bool starts_with_character(std::string_view line) {
  if (line.size() < 3 || (line[0] != '\'' && line[0] != '"')) return false;
  return line[1] == '\\' || (line[1] != line[0] && line[2] == line[0]);
}

bool is_table_line(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t([{-+,"), line.size()));
  if (starts_with_character(line)) return true;
  if (line.empty() || !is_digit(line[0])) return false;
  std::string_view rest = after_number(line);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r"), rest.size()));
  return rest.empty() || std::string_view(",:;)]}#/").find(rest[0]) != std::string_view::npos;
}

}  // namespace

bool is_number_table(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::int64_t lines = 0;
  std::int64_t of_table = 0;
  for (const std::string_view line : split_lines(text)) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    ++lines;
    of_table += is_table_line(line) ? 1 : 0;
  }
  return 2 * of_table > lines;
}

}  // namespace posenc::tasks
