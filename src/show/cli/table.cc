#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <utility>

#include "command/help.h"
#include "command/terminal.h"
#include "core/plain_text.h"

namespace posenc::cli {
namespace {

using command::Colour;

bool is_number(const std::string& text) {
  double number = 0.0;
  const char* end = text.data() + text.size();
  return !text.empty() && std::from_chars(text.data(), end, number).ptr == end;
}

// Of a cell below the heading "state".
Colour colour_of_state(std::string_view state) {
  constexpr std::array<std::pair<std::string_view, Colour>, 9> kStates = {
      {{"done", Colour::kGreen},
       {"finished", Colour::kGreen},
       {"held", Colour::kYellow},
       {"running", Colour::kYellow},
       {"waiting", Colour::kYellow},
       {"stopped", Colour::kYellow},
       {"failed", Colour::kRed},
       {"diverged", Colour::kRed},
       {"cannot be read", Colour::kRed}}};
  for (const auto& [name, colour] : kStates) {
    if (state.starts_with(name)) return colour;
  }
  return Colour::kNone;
}

// At most `width` characters a line, broken between words where it can be.
std::vector<std::string> broken(const std::string& cell, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  const std::string text = command::wrapped(cell, width);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t bytes = std::max<std::size_t>(1, character_length(rest));
    const bool ends = rest.front() == '\n';
    if (ends || used == width) {
      lines.emplace_back();
      used = 0;
    }
    if (!ends) {
      lines.back() += rest.substr(0, bytes);
      ++used;
    }
    rest.remove_prefix(bytes);
  }
  return lines;
}

// The widest columns give way first; none becomes narrower than a word or two.
void shrink(std::vector<std::size_t>& width, std::size_t room) {
  constexpr std::size_t kNarrowest = 12;
  for (;;) {
    const std::size_t used = std::accumulate(width.begin(), width.end(), std::size_t{0});
    const auto widest = std::max_element(width.begin(), width.end());
    if (used <= room || *widest <= kNarrowest) return;
    --*widest;
  }
}

}  // namespace

// A row of several lines where a cell is broken.
std::string Table::line(std::size_t row, const std::vector<std::size_t>& width,
                        const std::string& indent, bool colours) const {
  std::vector<std::vector<std::string>> cells;
  std::size_t height = 1;
  for (std::size_t c = 0; c < rows_[row].size(); ++c) {
    cells.push_back(broken(rows_[row][c], width[c]));
    height = std::max(height, cells.back().size());
  }
  std::string out;
  for (std::size_t h = 0; h < height; ++h) {
    std::string line = indent;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string cell = h < cells[c].size() ? cells[c][h] : "";
      const std::string blanks(width[c] - character_count(cell), ' ');
      Colour colour = Colour::kNone;
      if (colours && row == 0) colour = Colour::kBold;
      if (colours && row > 0 && rows_[0][c] == "state") colour = colour_of_state(rows_[row][c]);
      const std::string shown = command::coloured(cell, colour);
      line += (row > 0 && is_number(rows_[row][c]) ? blanks + shown : shown + blanks) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Table::text(const std::string& indent, bool colours, std::size_t terminal) const {
  std::vector<std::size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c)
      width[c] = std::max(width[c], character_count(row[c]));
  }
  const std::size_t between = indent.size() + 2 * (width.size() - 1);
  const std::size_t limit = width_ != 0 ? width_ : terminal;
  if (limit > between) shrink(width, limit - between);
  std::string rule = indent;
  for (const std::size_t w : width) rule += std::string(w, '-') + "  ";
  std::string out = line(0, width, indent, colours) + rule.substr(0, rule.size() - 2) + "\n";
  for (std::size_t r = 1; r < rows_.size(); ++r) out += line(r, width, indent, colours);
  return out;
}

std::string short_number(double number) { return fmt::format("{:.6g}", number); }

}  // namespace posenc::cli
