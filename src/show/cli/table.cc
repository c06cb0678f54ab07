#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace posenc::cli {
namespace {

bool is_number(const std::string& text) {
  double number = 0.0;
  const char* end = text.data() + text.size();
  return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
}

}  // namespace

std::string Table::text(const std::string& indent) const {
  std::vector<std::size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c)
      width[c] = std::max(width[c], character_count(row[c]));
  }
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line = indent;
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      const std::string& cell = rows_[r][c];
      line += r > 0 && is_number(cell) ? fmt::format("{:>{}}", cell, width[c])
                                       : fmt::format("{:<{}}", cell, width[c]);
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r > 0) continue;
    out += indent;
    for (std::size_t c = 0; c < width.size(); ++c) {
      out += std::string(width[c], '-') + (c + 1 < width.size() ? "  " : "");
    }
    out += "\n";
  }
  return out;
}

std::string short_number(double number) { return fmt::format("{:.6g}", number); }

}  // namespace posenc::cli
