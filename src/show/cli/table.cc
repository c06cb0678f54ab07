#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "command/help.h"
#include "command/terminal.h"

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

}  // namespace

std::string Table::line(std::size_t row, const std::vector<std::size_t>& width,
                        const std::string& indent, bool colours) const {
  std::string line = indent;
  std::size_t used = indent.size();  // without colours
  for (std::size_t c = 0; c < rows_[row].size(); ++c) {
    const bool last = c + 1 == rows_[row].size();
    std::string cell = rows_[row][c];
    // Broken once it is known where the column begins, if that leaves room for a few words.
    if (last && row > 0 && used + 20 <= width_) cell = command::wrapped(cell, width_, used);
    const std::size_t blanks = last ? 0 : width[c] - character_count(cell);
    used += width[c] + 2;
    const bool right = row > 0 && is_number(cell);
    Colour colour = Colour::kNone;
    if (colours && row == 0) colour = Colour::kBold;
    if (colours && row > 0 && rows_[0][c] == "state") colour = colour_of_state(cell);
    const std::size_t before = !right ? 0 : width[c] - character_count(cell);
    line += std::string(before, ' ') + command::coloured(cell, colour) +
            std::string(right ? 0 : blanks, ' ') + (last ? "" : "  ");
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string Table::text(const std::string& indent, bool colours) const {
  std::vector<std::size_t> width(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c)
      width[c] = std::max(width[c], character_count(row[c]));
  }
  std::size_t before = indent.size();
  for (std::size_t c = 0; c + 1 < width.size(); ++c) before += width[c] + 2;
  std::string rule = indent;
  for (std::size_t c = 0; c < width.size(); ++c) {
    const bool last = c + 1 == width.size();
    const std::size_t room = last && before + 20 <= width_ ? width_ - before : width[c];
    rule += std::string(std::min(width[c], room), '-') + (last ? "" : "  ");
  }
  std::string out = line(0, width, indent, colours) + rule + "\n";
  for (std::size_t r = 1; r < rows_.size(); ++r) out += line(r, width, indent, colours);
  return out;
}

std::string short_number(double number) { return fmt::format("{:.6g}", number); }

}  // namespace posenc::cli
