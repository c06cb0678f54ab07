// posenc reproduce: the runs behind a page of docs/evidence, made again and held against those committed.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/evidence_check.h"
#include "cli/print.h"
#include "cli/sweep_session.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "posenc/core/error.h"
#include "report/evidence_verdict.h"
#include "system/process.h"
#include "system/stop_request.h"

namespace posenc::cli {
namespace {

constexpr std::size_t kLongestRow = 36;

struct ReproduceOptions {
  std::string name;
  std::string part;
  std::string root = ".";
  std::string out;
  bool check = false;
  bool page = false;
  SessionOptions session;
};

int list_pages(const EvidenceFiles& files) {
  Table table({"page", "part", "jobs", "runs", "question"});
  for (const std::string& name : files.names()) {
    const sweep::EvidenceFile file = files.read(name);
    for (const sweep::EvidencePart& part : file.parts) {
      const bool first = &part == &file.parts.front();
      table.add({first ? name : "", part.name,
                 std::to_string(sweep::make_plan(part.sweep, {}).jobs.size()),
                 std::to_string(files.committed(name, part.name).size()),
                 first ? file.question : ""});
    }
    for (const sweep::MeasuredPart& part : file.measured) {
      const bool first = file.parts.empty() && &part == &file.measured.front();
      table.add({first ? name : "", part.name, "bench",
                 files.committed_rows(name, part.name).empty() ? "0" : "1",
                 first ? file.question : ""});
    }
  }
  print_table(table, "");
  return kFine;
}

// Its table is printed as it grows; the rows go to a file when all are there.
int run_measured(const EvidenceFiles& files, const sweep::EvidenceFile& file,
                 const sweep::MeasuredPart& part, const ReproduceOptions& options) {
  const std::filesystem::path out = files.rows_file(part, options.out);
  Command command;
  command.words = part.words;
  command.words.insert(command.words.begin(), program_beside("posenc-bench"));
  command.words.insert(command.words.end(), {"--output", out.string()});
  print_line(fmt::format("{}, part {}: {}", file.name, part.name, part.about));
  print_line(posenc::command_text(command.words));
  if (options.session.dry_run) return kFine;
  std::filesystem::create_directories(out.parent_path());
  const Ending ending = posenc::run_command(command);
  if (!ending.fine()) {
    print("posenc bench ended with {}\n", ending_text(ending));
    return kFailure;
  }
  print("rows: {}\n", out.string());
  return kFine;
}

// What was trained here; none where no job has come far enough to have a folder.
std::vector<report::Run> runs_below(const std::filesystem::path& folder) {
  try {
    return report::find_runs({folder.string()});
  } catch (const Error&) {
    return {};
  }
}

void print_verdicts(const std::vector<report::Run>& here, const std::vector<report::Run>& there) {
  Table table({"encoding", "condition", "here", "committed", "verdict"});
  for (const report::Verdict& verdict : report::verdicts(here, there)) {
    table.add({shortened(verdict.row, kLongestRow), verdict.condition, verdict.here, verdict.there,
               verdict.words});
  }
  print("\n");
  print_table(table, "");
  print("\n");
}

void print_text_table(const report::TextTable& text) {
  Table table(text.header);
  for (const auto& row : text.rows) table.add(row);
  print_title(text.title);
  print("\n");
  print_table(table, "");
  print("\n");
}

// The committed runs of a part; nothing where they cannot be read.
using Committed = std::optional<std::vector<report::Run>>;

// Before the first job, because a sweep may take hours. A machine that cannot unpack them, having no zstd, can train.
std::vector<Committed> read_committed(const EvidenceFiles& files, const std::string& page,
                                      const std::vector<sweep::EvidencePart>& parts) {
  std::vector<Committed> all;
  for (const sweep::EvidencePart& part : parts) {
    try {
      all.emplace_back(files.committed(page, part.name));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kIo) throw;
      print_error("posenc: part {} is trained and not compared: {}", part.name, error.what());
      all.emplace_back();
    }
  }
  return all;
}

void print_comparison(const sweep::EvidenceFile& file, const sweep::EvidencePart& part,
                      const sweep::Plan& plan, const Committed& there) {
  std::vector<report::Run> here = runs_below(plan.file.out);
  if (here.empty()) {
    print("part {}: nothing to compare: no run has been started\n", part.name);
    return;
  }
  if (!there) {
    print("part {}: not compared, because the committed runs could not be read\n", part.name);
  } else if (there->empty()) {
    print("part {}: no runs are committed to compare with\n", part.name);
  } else {
    print_verdicts(here, *there);
  }
  const report::EvidencePart made = make_part(file, part, plan.jobs.size(), std::move(here));
  for (const report::TextTable& table : report::published_tables(made)) print_text_table(table);
}

std::vector<sweep::EvidencePart> chosen_parts(const sweep::EvidenceFile& file,
                                              const std::string& name) {
  return name.empty() ? file.parts : std::vector{file.part(name)};
}

// Plans of all parts come first, so that a mistake in any is said before the first job starts.
std::vector<sweep::Plan> make_plans(const EvidenceFiles& files, const ReproduceOptions& options,
                                    const std::vector<sweep::EvidencePart>& parts) {
  std::vector<sweep::Plan> plans;
  for (const sweep::EvidencePart& part : parts) {
    sweep::SweepFile sweep = part.sweep;
    sweep.out = files.runs_folder(part, options.out);
    plans.push_back(plan_for(std::move(sweep), options.session));
  }
  return plans;
}

// Each measures a machine, and hardly any machine is meant by two.
void require_one_measured(const sweep::EvidenceFile& file, const std::string& part) {
  if (!part.empty() || file.measured.size() < 2) return;
  std::string names;
  for (const sweep::MeasuredPart& one : file.measured) {
    names += (names.empty() ? "--part " : " or --part ") + one.name;
  }
  throw Error(ErrorKind::kMissingKey, {.scope = "reproduce",
                                       .key = "--part",
                                       .rule = "is required for " + file.name,
                                       .value = "",
                                       .hint = "use " + names});
}

int run_parts(const EvidenceFiles& files, const sweep::EvidenceFile& file,
              const ReproduceOptions& options) {
  require_one_measured(file, options.part);
  int code = kFine;
  for (const sweep::MeasuredPart& part : file.measured) {
    if (!options.part.empty() && part.name != options.part) continue;
    code = std::max(code, run_measured(files, file, part, options));
  }
  if (file.measured_part(options.part) != nullptr) return code;
  const std::vector<sweep::EvidencePart> parts = chosen_parts(file, options.part);
  const std::vector<sweep::Plan> plans = make_plans(files, options, parts);
  std::vector<Committed> committed;
  if (!options.session.dry_run) committed = read_committed(files, file.name, parts);
  const auto box = time_box(options.session);  // for all parts together
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (box && !box->may_start()) return code == kFine ? kTimeIsUp : code;
    print_line(fmt::format("{}, part {}: {}", file.name, parts[i].name, parts[i].about));
    const SessionResult result = run_session(plans[i], plans[i].jobs, options.session, box);
    if (result.interrupted) return result.code;
    if (code == kFine) code = result.code;  // a failure of an earlier part is not hidden
    if (!options.session.dry_run) print_comparison(file, parts[i], plans[i], committed[i]);
    if (result.time_is_up) return code;  // what is left of the box is too short for another part
  }
  return code;
}

int run_reproduce(const ReproduceOptions& options) {
  const EvidenceFiles files(options.root);
  if (options.name.empty()) return list_pages(files);
  const sweep::EvidenceFile file = files.read(options.name);
  if (options.check) return check_page(files, file);
  if (options.page) return write_page(files, file);
  return run_parts(files, file, options);
}

}  // namespace

void add_reproduce(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "reproduce", "Repeat the sweeps behind a page of docs/evidence and compare the results");
  auto options = std::make_shared<ReproduceOptions>();
  verb->add_option("NAME", options->name, "the page; without it the pages are listed");
  CLI::Option* part = verb->add_option("--part", options->part, "only this part of the page");
  verb->add_option("--root", options->root, "root of the repository")->capture_default_str();
  CLI::Option* out =
      verb->add_option("--out", options->out, "folder of the runs (default: runs/evidence/NAME)");
  CLI::Option* check = verb->add_flag("--check", options->check,
                                      "compare the page with the committed runs, change nothing");
  CLI::Option* page =
      verb->add_flag("--page", options->page, "write the page's tables and pictures from the runs");
  page->excludes(check);
  const std::size_t before = verb->get_options({}).size();
  add_session_options(*verb, options->session);
  std::vector<CLI::Option*> of_training = verb->get_options({});
  of_training.erase(of_training.begin(), of_training.begin() + static_cast<std::ptrdiff_t>(before));
  of_training.insert(of_training.end(), {part, out});
  for (CLI::Option* option : of_training) {  // neither trains
    check->excludes(option);
    page->excludes(option);
  }
  verb->footer(
      "Finished runs are skipped and interrupted ones go on.\n"
      "Examples:\n"
      "  posenc reproduce\n"
      "  posenc reproduce copy-small --jobs 2\n"
      "  posenc reproduce copy-small --check\n");
  verb->callback([&chosen, options] { chosen = [options] { return run_reproduce(*options); }; });
}

}  // namespace posenc::cli
