// posenc report: what runs found, as one HTML file.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/print.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "posenc/core/error.h"
#include "report/html.h"
#include "runs/files.h"
#include "runs/run_directory.h"

namespace posenc::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> folders;
  std::string out = "report.html";
  std::string title;
  report::CompareOptions compare;
};

// The words that make this page again, for its foot.
std::string command_text(const ReportOptions& options) {
  std::string command = "posenc report";
  for (const std::string& folder : options.folders) command += " " + folder;
  return command;
}

void check_out(const std::filesystem::path& path) {
  runs::require_no_run_file(output_target(path.string()));
  if (!std::filesystem::is_directory(path)) return;
  throw Error(ErrorKind::kIo, {.scope = "report",
                               .key = path.string(),
                               .rule = "is a folder",
                               .value = "",
                               .hint = "name a file: -o " + (path / "report.html").string()});
}

int run_report(const ReportOptions& options) {
  check_out(options.out);
  report::ReportInput input{.runs = report::find_runs(options.folders),
                            .compare = options.compare,
                            .title = options.title,
                            .command = command_text(options)};
  const std::string page = report::html_report(input);
  write_output(options.out, page);
  print("{} ({:.1f} MB)\n", options.out, static_cast<double>(page.size()) / 1e6);
  return kFine;
}

}  // namespace

void add_report(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "report", "Write what runs found as one HTML file: tables, charts, attention");
  auto options = std::make_shared<ReportOptions>();
  verb->add_option("DIR", options->folders,
                   "runs, packs of runs, or folders with either below them")
      ->required();
  verb->add_option("-o,--out", options->out, "the file to write")->capture_default_str();
  verb->add_option("--title", options->title, "of the page (default: what was compared)");
  verb->add_option("--threshold", options->compare.threshold,
                   "accuracy that the effective length asks for (default: the runs' own)")
      ->check(command::number_in(0.0, 1.0));
  verb->footer("Example:\n  posenc report runs/demo -o runs/demo/report.html\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_report(*options); }; });
}

}  // namespace posenc::cli
