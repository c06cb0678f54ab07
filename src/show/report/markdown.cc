#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plain_text.h"
#include "report/tables.h"

namespace posenc::report {
namespace {

std::string markdown_row(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    cell = one_line(cell);
    for (std::size_t at = cell.find('|'); at != std::string::npos; at = cell.find('|', at + 2)) {
      cell.insert(at, "\\");
    }
  }
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

}  // namespace

std::string markdown_table(const TextTable& table) {
  std::string text = fmt::format("**{}**\n\n{}", one_line(table.title), markdown_row(table.header));
  text += markdown_row(std::vector<std::string>(table.header.size(), "---"));
  for (const auto& row : table.rows) text += markdown_row(row);
  return text + "\n";
}

}  // namespace posenc::report
