// Plain tables for people: columns as wide as they need to be, numbers to the right.
#pragma once

#include <string>
#include <vector>

#include "core/plain_text.h"

namespace posenc::cli {

class Table {
 public:
  // `width`: cells are broken so that lines stay within it; 0: within the terminal.
  explicit Table(std::vector<std::string> header, std::size_t width = 0)
      : rows_{std::move(header)}, width_(width) {}
  // A cell is one line, whatever name it shows.
  void add(std::vector<std::string> row) {
    for (std::string& cell : row) cell = one_line(cell);
    rows_.push_back(std::move(row));
  }
  // Every line starts with `indent`; the header is underlined. `terminal`: its width, or 0 for lines of any length.
  [[nodiscard]] std::string text(const std::string& indent = "  ", bool colours = false,
                                 std::size_t terminal = 0) const;

 private:
  [[nodiscard]] std::string line(std::size_t row, const std::vector<std::size_t>& width,
                                 const std::string& indent, bool colours) const;

  std::vector<std::vector<std::string>> rows_;
  std::size_t width_;
};

// Six significant digits, without padding: for reading, not for reading back.
std::string short_number(double number);

}  // namespace posenc::cli
