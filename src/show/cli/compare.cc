// posenc compare: what runs found, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "report/latex.h"
#include "report/tables.h"
#include "runs/numbers.h"

namespace posenc::cli {
namespace {

constexpr std::size_t kWidth = 100;  // of a file or a pipe

std::size_t output_width() {
  const std::size_t terminal = command::terminal_width(STDOUT_FILENO);
  return terminal == 0 ? kWidth : terminal;
}

struct CompareOptions {
  std::vector<std::string> folders;
  report::CompareOptions compare;
  bool json = false;
  bool csv = false;
  bool markdown = false;
  bool latex = false;
};

// Lines that are moved in by `indent`, broken between words; what follows the first a little further.
void print_wrapped(const std::string& text, const std::string& indent) {
  const std::size_t width = output_width();
  std::string line = indent;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (line.size() + end - begin > width && line.find_first_not_of(' ') != std::string::npos) {
      print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
      line = indent + "   ";
    }
    line += text.substr(begin, end - begin) + " ";
    begin = end + 1;
  }
  print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
}

void print_terminal(const report::TextTable& whole) {
  print_title(whole.title);
  for (const report::TextTable& part : report::fitted(whole, output_width())) {
    Table table(part.header);
    for (const auto& row : part.rows) table.add(row);
    print("\n");
    print_table(table, "");
  }
  for (const std::string& note : whole.notes) print_wrapped(note, "  ");
  print("\n");
}

void print_markdown(const report::TextTable& table) {
  print("{}", report::markdown_table(table));
  for (const std::string& note : table.notes) {
    print("- {}\n", note.substr(note.find_first_not_of(' ')));
  }
  if (!table.notes.empty()) print("\n");
}

// What the locale says: the first of these variables that is set decides.
bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread runs yet
    if (value == nullptr || *value == '\0') continue;
    std::string locale = value;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

// Documents are UTF-8, terminals may not be.
report::CurveLetters letters_for(bool markdown) {
  return markdown || is_utf8_locale() ? report::CurveLetters::kBlocks
                                      : report::CurveLetters::kDigits;
}

void print_findings(const report::TaskTable& table, bool markdown) {
  if (table.findings.empty()) return;
  const char* mark = markdown ? "**" : "";
  print("{}{}: findings{}\n\n", mark, one_line(table.task), mark);
  for (const statistics::Finding& finding : table.findings) {
    if (markdown) {
      print("- {}\n", one_line(finding.text));
    } else {
      print_wrapped(one_line(finding.text), "  ");
    }
  }
  print("\n");
}

void print_left_out(const report::Comparison& comparison, bool markdown) {
  if (comparison.left_out.empty()) return;
  print("{} not in the tables:\n{}", comparison.left_out.size(), markdown ? "\n" : "");
  for (const std::string& line : comparison.left_out) {
    print("{}{}\n", markdown ? "- " : "  ", one_line(line));
  }
}

int run_compare(const CompareOptions& options) {
  const report::Comparison comparison =
      report::compare(report::find_runs(options.folders), options.compare);
  if (options.json) {
    print_json(to_json(runs::without_non_finite(report::to_value(comparison))));
    return kFine;
  }
  if (options.csv) {
    print("{}", report::to_csv(comparison));
    return kFine;
  }
  if (options.latex) {
    print("{}", report::to_latex(comparison));
    return kFine;
  }
  for (const report::TextTable& table :
       report::text_tables(comparison, letters_for(options.markdown))) {
    options.markdown ? print_markdown(table) : print_terminal(table);
  }
  for (const report::TaskTable& table : comparison.tasks) print_findings(table, options.markdown);
  print_left_out(comparison, options.markdown);
  return kFine;
}

}  // namespace

void add_compare(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("compare", "Compare runs: a row per encoding, with intervals over seeds");
  auto options = std::make_shared<CompareOptions>();
  verb->add_option("DIR", options->folders,
                   "runs, packs of runs, or folders with either below them")
      ->required();
  auto* form = verb->add_option_group("form");
  form->add_flag("--json", options->json, "everything, for programs");
  form->add_flag("--csv", options->csv, "one row per figure");
  form->add_flag("--markdown", options->markdown, "tables for a document");
  form->add_flag("--latex", options->latex, "tables of booktabs, for a paper");
  form->require_option(0, 1);
  verb->add_option("--threshold", options->compare.threshold,
                   "accuracy that the effective length asks for (default: the runs' own)")
      ->check(command::number_in(0.0, 1.0));
  verb->footer(
      "Examples:\n"
      "  posenc compare runs/demo\n"
      "  posenc compare runs/demo --latex > table.tex\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_compare(*options); }; });
}

}  // namespace posenc::cli
