// Plain tables for people: columns as wide as they need to be, numbers to the right.
#pragma once

#include <string>
#include <vector>

#include "core/plain_text.h"

namespace posenc::cli {

class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  // A cell is one line, whatever name it shows.
  void add(std::vector<std::string> row) {
    for (std::string& cell : row) cell = one_line(cell);
    rows_.push_back(std::move(row));
  }
  // Every line starts with `indent`; the header is underlined.
  [[nodiscard]] std::string text(const std::string& indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Six significant digits, without padding: for reading, not for reading back.
std::string short_number(double number);

}  // namespace posenc::cli
