#include "cli/latex.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/plain_text.h"
#include "report/words.h"

namespace posenc::cli {
namespace {

using report::Entry;
using report::TaskTable;

// Characters that are commands of LaTeX, as themselves.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : one_line(text)) {
    switch (c) {
      case '\\':
        out += "\\textbackslash{}";
        break;
      case '~':
        out += "\\textasciitilde{}";
        break;
      case '^':
        out += "\\textasciicircum{}";
        break;
      case '<':
        out += "\\textless{}";
        break;
      case '>':
        out += "\\textgreater{}";
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        out += '\\';
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

struct Column {
  std::string heading;  // in LaTeX
  std::string axis;
  double factor = 1;
};

std::vector<Column> columns_of(const TaskTable& table, const std::string& axis) {
  std::vector<Column> columns = {{"in domain", report::kInDomain, 1}};
  if (axis.empty()) return columns;
  for (const double factor : report::factors_of(table, axis)) {
    columns.push_back({fmt::format("${:.3g}\\times$", factor), axis, factor});
  }
  return columns;
}

std::string row_text(const TaskTable& table, const Entry& entry, const std::string& schedule,
                     const std::vector<Column>& columns) {
  const std::string& variant = table.variants[entry.variant].name;
  const std::string tail = variant.empty() ? "" : fmt::format(" [{}]", variant);
  std::vector<std::string> cells = {escaped(report::row_name(entry.encoding, schedule) + tail),
                                    escaped(report::runs_text(entry))};
  for (const Column& column : columns) {
    const report::Cell* cell = entry.row_cell(column.axis, column.factor, schedule);
    cells.push_back(escaped(report::headline_text(cell, table.metric)));
  }
  return fmt::format("    {} \\\\\n", fmt::join(cells, " & "));
}

std::string chance_row(const TaskTable& table, const std::vector<Column>& columns) {
  std::vector<std::string> cells = {"chance", ""};
  for (const Column& column : columns) {
    cells.push_back(escaped(report::chance_text(table, column.axis, column.factor)));
  }
  return fmt::format("    \\midrule\n    {} \\\\\n", fmt::join(cells, " & "));
}

std::string caption(const TaskTable& table, const std::string& axis) {
  std::string text = table.task;
  if (!axis.empty()) text += ", axis " + axis;
  text += fmt::format(": {}; trained at length {}", report::metric_title(table),
                      fmt::join(table.train_lengths, ", "));
  if (!axis.empty()) text += ", evaluated at multiples of it";
  text += ". n: number of runs.";
  if (report::has_intervals(table)) {
    text += " Brackets: 95 % interval over seeds and over the rows of the evaluation.";
  }
  return escaped(text);
}

std::string latex_table(const TaskTable& table, const std::string& axis) {
  const std::vector<Column> columns = columns_of(table, axis);
  std::string rows;
  for (const Entry& entry : table.entries) {
    const std::vector<std::string> own = {""};
    for (const std::string& schedule : axis.empty() ? own : report::schedules_of(entry, axis)) {
      rows += row_text(table, entry, schedule, columns);
    }
  }
  std::string headings;
  for (const Column& column : columns) headings += " & " + column.heading;
  return fmt::format(
      "\\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n  \\begin{{tabular}}{{lr{}}}\n"
      "    \\toprule\n    encoding & n{} \\\\\n    \\midrule\n{}{}    \\bottomrule\n"
      "  \\end{{tabular}}\n\\end{{table}}\n",
      caption(table, axis), std::string(columns.size(), 'r'), headings, rows,
      chance_row(table, columns));
}

}  // namespace

std::string latex_tables(const report::Comparison& comparison) {
  std::string text = "% Needs \\usepackage{booktabs}.\n";
  for (const TaskTable& table : comparison.tasks) {
    if (table.axes.empty()) text += latex_table(table, "");
    for (const std::string& axis : table.axes) text += latex_table(table, axis);
  }
  return text;
}

}  // namespace posenc::cli
