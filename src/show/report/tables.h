// A comparison as tables of words, for terminals and Markdown alike, and as data for programs.
#pragma once

#include <string>
#include <vector>

#include "report/compare.h"
#include "report/sparkline.h"

namespace posenc::report {

struct TextTable {
  std::string title;
  std::vector<std::string> header;  // the first column names the row
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> notes;
  std::size_t shared_rows = 0;  // at the end: chance and others that no encoding has to itself
};

std::vector<TextTable> text_tables(const Comparison& comparison, CurveLetters letters);

// The overview of a task and a table per axis as the report page has them: names in full, no curves.
std::vector<TextTable> document_tables(const TaskTable& table);

// Title and rows for a document; notes are not among them.
std::string markdown_table(const TextTable& table);

// One row per figure: task, variant, encoding, schedule, axis, factor, length, region, n, value, low, ...
std::string to_csv(const Comparison& comparison);

Value to_value(const Comparison& comparison);

// Columns from the second on, spread over as many tables as it takes to stay within `width` letters;
// the first column stands in each. Title and notes are not among them.
std::vector<TextTable> fitted(const TextTable& table, std::size_t width);

}  // namespace posenc::report
