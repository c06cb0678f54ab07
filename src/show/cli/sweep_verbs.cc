// posenc sweep status, cancel and retry: the folder of a sweep, wherever its workers run.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "cli/print.h"
#include "cli/sweep_slurm.h"
#include "cli/table.h"
#include "posenc/core/error.h"
#include "sweep/status.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;
using sweep::ViewState;

struct FolderWords {
  std::string folder;
  std::vector<std::string> runs;
  bool json = false;
  bool now = false;
};

CLI::App* add_verb(CLI::App& sweep, const char* name, const char* text, FolderWords& words) {
  CLI::App* verb = sweep.add_subcommand(name, text);
  verb->add_option("DIR", words.folder, "folder of the sweep")->required();
  return verb;
}

std::string where_text(const sweep::RunView& run) {
  if (run.state != ViewState::kHeld || run.holder.host.empty()) return "";
  return run.holder.job.empty() ? fmt::format("{}:{}", run.holder.host, run.holder.pid)
                                : fmt::format("{} job {}", run.holder.host, run.holder.job);
}

int run_status(const FolderWords& words) {
  const sweep::SweepView view = sweep::view_sweep(words.folder);
  if (words.json) {
    print_json(to_json(sweep::view_value(view)));
    return kFine;
  }
  Table table({"state", "run", "step", "held by", "what"});
  for (const sweep::RunView& run : view.runs) {
    table.add({std::string(enum_name(run.state)), run.job.name, std::to_string(run.step),
               where_text(run), run.message});
  }
  print_table(table);
  std::string counts;
  for (const auto state : {ViewState::kDone, ViewState::kHeld, ViewState::kWaiting,
                           ViewState::kFailed, ViewState::kDiverged}) {
    const std::size_t count = sweep::count_of(view.runs, state);
    if (count > 0)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, enum_name(state));
  }
  print("{} runs: {}\n", view.runs.size(), counts);
  for (const std::string& line : sweep::submission_lines(words.folder, view)) print("{}\n", line);
  return kFine;
}

std::vector<std::string> active_jobs(const sweep::SweepView& view) {
  std::vector<std::string> jobs;
  for (const sweep::Submission& submission : view.submissions) {
    const bool active = std::any_of(view.tasks.begin(), view.tasks.end(), [&](const auto& task) {
      return task.first.starts_with(submission.job + "_") && sweep::is_active(task.second);
    });
    if (active) jobs.push_back(submission.job);
  }
  return jobs;
}

// Workers of this machine that no scheduler started: `posenc sweep` in another terminal.
std::vector<pid_t> local_workers(const sweep::SweepView& view) {
  std::vector<pid_t> workers;
  for (const sweep::RunView& run : view.runs) {
    const auto id = static_cast<pid_t>(run.holder.pid);
    if (run.state != ViewState::kHeld || !run.holder.job.empty()) continue;
    if (sweep::life_of(run.holder) != sweep::Life::kAlive) continue;
    if (std::find(workers.begin(), workers.end(), id) == workers.end()) workers.push_back(id);
  }
  return workers;
}

int run_cancel(const FolderWords& words) {
  const sweep::SweepView view = sweep::view_sweep(words.folder);
  const std::vector<std::string> jobs = active_jobs(view);
  const std::vector<pid_t> workers = local_workers(view);
  if (!jobs.empty()) sweep::cancel_jobs(jobs, words.now);
  for (const std::string& job : jobs) print("job {}: cancelled\n", job);
  for (const pid_t worker : workers) {
    ::kill(worker, SIGTERM);
    print("process {}: asked to save and end\n", worker);
  }
  if (jobs.empty() && workers.empty()) {
    print("nothing to cancel: no job is queued and no process of this machine works here\n");
  } else {
    print("runs in progress save and stop; posenc sweep goes on with them\n");
  }
  return kFine;
}

int run_retry(const FolderWords& words) {
  const sweep::SweepView view = sweep::view_sweep(words.folder);
  const std::vector<sweep::RunView> chosen = sweep::runs_to_retry(view, words.runs);
  if (chosen.empty()) {
    print("nothing to retry: no run has failed\n");
    return kFine;
  }
  if (!view.submissions.empty()) sweep::require_sbatch();
  for (const sweep::RunView& run : chosen) {
    sweep::mark_retry(words.folder, run);
    print("{}: will be tried again\n", run.job.name);
  }
  if (view.submissions.empty()) {
    print("start them: posenc sweep {}\n", view.plan.file.path);
    return kFine;
  }
  const sweep::Submission& last = view.submissions.back();
  const sweep::Submission made =
      sweep::submit(words.folder, fs::path(words.folder) / "slurm" / last.script,
                    static_cast<int>(std::min<std::size_t>(chosen.size(), 64)));
  print("submitted job {}: {} tasks, as job {}\n", made.job, made.tasks, last.job);
  return kFine;
}

}  // namespace

void add_sweep_status(CLI::App& sweep, Action& chosen) {
  auto words = std::make_shared<FolderWords>();
  CLI::App* verb =
      add_verb(sweep, "status", "Show the runs of a sweep and why some failed", *words);
  verb->add_flag("--json", words->json, "as JSON");
  verb->footer("Example:\n  posenc sweep status runs/theta\n");
  verb->callback([&chosen, words] { chosen = [words] { return run_status(*words); }; });
}

void add_sweep_cancel(CLI::App& sweep, Action& chosen) {
  auto words = std::make_shared<FolderWords>();
  CLI::App* verb = add_verb(sweep, "cancel", "Stop the workers of a sweep; its runs save", *words);
  verb->add_flag("--now", words->now, "let Slurm end them within its KillWait");
  verb->footer("Example:\n  posenc sweep cancel runs/theta\n");
  verb->callback([&chosen, words] { chosen = [words] { return run_cancel(*words); }; });
}

void add_sweep_retry(CLI::App& sweep, Action& chosen) {
  auto words = std::make_shared<FolderWords>();
  CLI::App* verb = add_verb(sweep, "retry", "Try failed runs again", *words);
  verb->add_option("RUN", words->runs, "names of runs (default: all that failed)");
  verb->footer("Example:\n  posenc sweep retry runs/theta rope-seed0\n");
  verb->callback([&chosen, words] { chosen = [words] { return run_retry(*words); }; });
}

}  // namespace posenc::cli
