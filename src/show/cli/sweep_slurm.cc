#include "cli/sweep_slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "cli/print.h"
#include "command/ranges.h"
#include "posenc/core/error.h"
#include "runs/files.h"

namespace posenc::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTasks = 64;  // unless --array asks for more
constexpr std::array<const char*, 8> kSlurmOptions = {
    "--partition", "--time", "--mem", "--gpus", "--cpus", "--array", "--grace", "--sbatch"};

// One task for each run that is left, as far as they were asked for.
int tasks_for(std::size_t left, int asked) {
  const std::size_t most = static_cast<std::size_t>(asked > 0 ? asked : kMostTasks);
  return static_cast<int>(std::clamp<std::size_t>(left, 1, most));
}

}  // namespace

void add_slurm_options(CLI::App& verb, sweep::SlurmRequest& request) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return verb.add_option(name, value, text)->group("With --on slurm");
  };
  add("--partition", request.partition, "partition of the cluster");
  add("--time", request.time, "time limit of a task, as sbatch takes it: 90 or 4:00:00 or 2-12");
  add("--gpus", request.gpus, "GPUs of a task")->check(command::integer_in(1, 1024));
  add("--cpus", request.cpus, "processors of a task")->check(command::integer_in(1, 4096));
  add("--mem", request.memory, "memory of a task, such as 16G");
  add("--array", request.tasks, "tasks, at most (default: one per run, 64 at most)")
      ->check(command::integer_in(1, 1000000));
  add("--grace", request.grace, "seconds before the time limit at which runs save (default: 120)")
      ->check(command::integer_in(1, 86400));
  add("--sbatch", request.more, "further option of sbatch, such as --sbatch=--account=physics")
      ->allow_extra_args(false);
}

void refuse_slurm_options(const CLI::App& verb) {
  for (const char* name : kSlurmOptions) {
    if (verb.get_option(name)->count() == 0) continue;
    throw Error(ErrorKind::kConflict, {.scope = "sweep",
                                       .key = name,
                                       .rule = "is for a cluster",
                                       .value = "",
                                       .hint = "add --on slurm, or leave it out"});
  }
}

int submit_sweep(const sweep::Plan& plan, const SessionOptions& options,
                 sweep::SlurmRequest request, const std::vector<std::string>& worker) {
  if (!options.dry_run) sweep::require_sbatch();
  const std::vector<sweep::JobReport> reports = look_up(plan, plan.jobs);
  const std::size_t left =
      reports.size() - sweep::tally(reports).skipped - sweep::tally(reports).diverged;
  request.tasks = tasks_for(left, request.tasks);
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string()};
  words.insert(words.end(), worker.begin(), worker.end());
  const std::string name = fs::absolute(plan.file.out).lexically_normal().filename().string();
  const std::string script =
      slurm_script(request, name, fs::absolute(plan.file.out), fs::current_path(), words);
  if (options.dry_run) {
    print_jobs(reports);
    print_line("\n" + script);
    return kFine;
  }
  if (left == 0) {
    print_line(fmt::format("nothing to do: all {} runs have ended", reports.size()));
    return kFine;
  }
  const fs::path path = sweep::write_script(plan.file.out, script);
  // With the jobs in it, posenc sweep status knows the folder before the first task starts.
  runs::write_json(plan.file.out / "sweep.json", sweep::summary(plan, reports, {}, options.jobs));
  const sweep::Submission made = sweep::submit(plan.file.out, path, request.tasks);
  print_line(fmt::format("submitted job {}: {} {} for {} of {} runs; script: {}", made.job,
                         made.tasks, made.tasks == 1 ? "task" : "tasks", left, reports.size(),
                         path.string()));
  print_line(fmt::format("state: posenc sweep status {}", plan.file.out.string()));
  return kFine;
}

}  // namespace posenc::cli
