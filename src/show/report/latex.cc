#include "report/latex.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plain_text.h"

namespace posenc::report {
namespace {

std::string latex_letter(char letter) {
  switch (letter) {
    case '\\':
      return "\\textbackslash{}";
    case '~':
      return "\\textasciitilde{}";
    case '^':
      return "\\textasciicircum{}";
    case '<':
      return "\\textless{}";
    case '>':
      return "\\textgreater{}";
    case '|':
      return "\\textbar{}";
    case '&':
    case '%':
    case '$':
    case '#':
    case '_':
    case '{':
    case '}':
      return std::string("\\") + letter;
    default:
      return {letter};
  }
}

std::string latex_text(const std::string& text) {
  std::string out;
  for (const char letter : one_line(text)) out += latex_letter(letter);
  return out;
}

std::string latex_row(const std::vector<std::string>& row, bool code) {
  std::vector<std::string> cells;
  for (const std::string& cell : row) cells.push_back(cell == "-" ? "--" : latex_text(cell));
  if (code) cells.front() = fmt::format("\\texttt{{{}}}", cells.front());
  return fmt::format("    {} \\\\\n", fmt::join(cells, " & "));
}

}  // namespace

std::string latex_table(const TextTable& table) {
  std::string out = "% \\usepackage{booktabs}\n";
  for (const std::string& note : table.notes) out += fmt::format("% {}\n", one_line(note));
  out += fmt::format(
      "\\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n  \\begin{{tabular}}{{l{}}}\n"
      "    \\toprule\n",
      latex_text(table.title), std::string(table.header.size() - 1, 'r'));
  out += latex_row(table.header, false) + "    \\midrule\n";
  const std::size_t own = table.rows.size() - table.shared_rows;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    if (r == own) out += "    \\midrule\n";
    out += latex_row(table.rows[r], r < own);
  }
  return out + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n";
}

std::string to_latex(const Comparison& comparison) {
  std::vector<std::string> tables;
  for (const TaskTable& task : comparison.tasks) {
    for (const TextTable& table : document_tables(task)) tables.push_back(latex_table(table));
  }
  return fmt::format("{}", fmt::join(tables, "\n"));
}

}  // namespace posenc::report
