// Wide tables, broken into parts that a terminal can show.
#include <algorithm>

#include "core/plain_text.h"
#include "report/tables.h"

namespace posenc::report {
namespace {

constexpr std::size_t kBetween = 2;  // columns of letters between two columns

std::vector<std::size_t> column_widths(const TextTable& table) {
  std::vector<std::size_t> widths(table.header.size());
  for (std::size_t c = 0; c < widths.size(); ++c) {
    widths[c] = character_count(table.header[c]);
    for (const auto& row : table.rows) widths[c] = std::max(widths[c], character_count(row[c]));
  }
  return widths;
}

// "2x", "2x last 1/8", "2x all": columns that say more about the first stay with it.
std::size_t group_end(const TextTable& table, std::size_t first) {
  std::size_t end = first + 1;
  const std::string lead = table.header[first] + " ";
  while (end < table.header.size() && table.header[end].starts_with(lead)) ++end;
  return end;
}

std::size_t group_width(const std::vector<std::size_t>& widths, std::size_t first,
                        std::size_t end) {
  std::size_t width = 0;
  for (std::size_t c = first; c < end; ++c) width += kBetween + widths[c];
  return width;
}

TextTable first_column(const TextTable& table) {
  TextTable part{.header = {table.header[0]}};
  for (const auto& row : table.rows) part.rows.push_back({row[0]});
  return part;
}

void add_column(const TextTable& table, std::size_t column, TextTable& part) {
  part.header.push_back(table.header[column]);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    part.rows[r].push_back(table.rows[r][column]);
  }
}

}  // namespace

std::vector<TextTable> fitted(const TextTable& table, std::size_t width) {
  const std::vector<std::size_t> widths = column_widths(table);
  std::vector<TextTable> parts;
  std::size_t used = width;
  std::size_t together = 1;  // the end of the group that is being added
  for (std::size_t c = 1; c < widths.size(); ++c) {
    const bool starts = c >= together;
    if (starts) together = group_end(table, c);
    const bool whole_group = starts && widths[0] + group_width(widths, c, together) <= width;
    const std::size_t needed = group_width(widths, c, whole_group ? together : c + 1);
    if (parts.empty() || used + needed > width) {
      parts.push_back(first_column(table));
      used = widths[0];
    }
    used += kBetween + widths[c];
    add_column(table, c, parts.back());
  }
  return parts;
}

}  // namespace posenc::report
