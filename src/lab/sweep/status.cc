#include "sweep/status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/bind.h"
#include "posenc/core/fields.h"
#include "runs/files.h"
#include "runs/run_directory.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;
using runs::RunState;

std::string text_of(const Value& map, const char* key) {
  const Value* found = map.find(key);
  const auto* text = found == nullptr ? nullptr : found->get_if<std::string>();
  return text == nullptr ? "" : *text;
}

// Folders are found by their name: the sweep's may have moved, or be seen from another place.
Job job_of(const Value& value, const fs::path& out) {
  Job job;
  job.name = text_of(value, "name");
  job.hash = text_of(value, "hash");
  job.eval_hash = text_of(value, "eval_hash");
  job.folder = out / fs::path(text_of(value, "folder")).filename();
  return job;
}

void add_jobs(const fs::path& file, const fs::path& out, Plan& plan, std::set<std::string>& known) {
  const Value summary = runs::read_json(file);
  plan.file.path = text_of(summary, "sweep");
  plan.file.base = text_of(summary, "base");
  const Value* jobs = summary.find("jobs");
  const auto* list = jobs == nullptr ? nullptr : jobs->get_if<Value::List>();
  if (list == nullptr) return;
  for (const Value& value : *list) {
    Job job = job_of(value, out);
    if (!job.hash.empty() && known.insert(job.hash).second) plan.jobs.push_back(std::move(job));
  }
}

std::optional<runs::RunStatus> status_in(const fs::path& folder) {
  try {
    return runs::RunDirectory::open(folder, runs::Access::kRead).status();
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What Slurm says of the job of a holder whose attempt has no end.
const SlurmTask* task_of(const Holder& holder, const std::map<std::string, SlurmTask>& tasks) {
  const auto found = tasks.find(holder.job);
  return holder.job.empty() || found == tasks.end() ? nullptr : &found->second;
}

std::string reason_text(const SlurmTask& task) {
  return task.reason.empty() ? task.state : fmt::format("{} ({})", task.state, task.reason);
}

std::string stopped_text(const runs::RunStatus& status) {
  return status.step > 0 ? fmt::format("stopped at step {}", status.step) : "";
}

// An attempt without an end: its holder works, or it died and Slurm may know why.
void view_open(const Attempt& attempt, const std::map<std::string, SlurmTask>& tasks,
               RunView& view) {
  const SlurmTask* task = task_of(attempt.holder, tasks);
  const bool gone = life_of(attempt.holder) == Life::kGone;
  const bool ended = task != nullptr && !is_active(*task);
  if (task != nullptr && is_queued(*task)) {
    view.holder_died = true;
    view.message = fmt::format("job {} is queued again", attempt.holder.job);
  } else if (ended && task->state == "CANCELLED") {
    view.holder_died = true;
    view.message = fmt::format("job {} was cancelled", attempt.holder.job);
  } else if (gone || ended) {
    view.holder_died = true;
    view.state = ViewState::kFailed;
    view.message =
        ended ? fmt::format("Slurm ended job {}: {}", attempt.holder.job, reason_text(*task))
              : "its worker died: " + holder_text(attempt.holder);
  } else {
    view.state = ViewState::kHeld;
    if (attempt.beat_age > attempt.holder.limit) {
      view.message =
          fmt::format("no heartbeat for {:.0f} s; a worker will take it over", attempt.beat_age);
    }
  }
}

void view_waiting(const JobReport& report, const std::optional<Attempt>& last, RunView& view) {
  const auto status = status_in(report.job.folder);
  if (last && last->end && last->end->state == AttemptState::kFailed) {
    view.state = ViewState::kFailed;
    view.message = last->end->message;
  } else if (status && status->state == RunState::kFailed &&
             !(last && last->end && last->end->state == AttemptState::kRetry)) {
    view.state = ViewState::kFailed;
    view.message = status->message;
  } else if (report.state == JobState::kResume) {
    view.message = report.message.empty() && status ? stopped_text(*status) : report.message;
  }
}

// Slurm's word where it says more than the run: the kernel kills a trainer, and Slurm knows that memory was short.
void add_slurm_word(const std::map<std::string, SlurmTask>& tasks, RunView& view) {
  const SlurmTask* task = task_of(view.holder, tasks);
  const bool plain =
      task == nullptr || is_active(*task) || task->state == "COMPLETED" || task->state == "FAILED";
  if (plain) return;
  view.message += fmt::format("{}Slurm: {}", view.message.empty() ? "" : "; ", task->state);
}

RunView view_of(const JobReport& report, const fs::path& out,
                const std::map<std::string, SlurmTask>& tasks) {
  RunView view{.job = report.job};
  view.log = report.log;
  const std::optional<Attempt> last = last_attempt(lease_folder(out, report.job.hash));
  if (last) view.attempts = last->number;
  if (last) view.holder = last->holder;
  if (const auto status = status_in(report.job.folder)) view.step = status->step;
  if (report.state == JobState::kFinished) {
    view.state = ViewState::kDone;
  } else if (report.state == JobState::kDiverged) {
    view.state = ViewState::kDiverged;
    view.message = report.message;
  } else if (last && !last->end) {
    view_open(*last, tasks, view);
  } else if (report.state == JobState::kInUse) {
    view.state = ViewState::kHeld;
    view.message = "a process that holds no lease, such as posenc train";
  } else {
    view_waiting(report, last, view);
    add_slurm_word(tasks, view);
  }
  return view;
}

Value string_value(const std::string& s) { return Value::of_string(s); }

Value run_value(const RunView& run) {
  return {Value::Data(Value::Map{{"name", string_value(run.job.name)},
                                 {"state", write_field(run.state)},
                                 {"step", write_field(run.step)},
                                 {"attempts", write_field(run.attempts)},
                                 {"host", string_value(run.holder.host)},
                                 {"pid", write_field(run.holder.pid)},
                                 {"job", string_value(run.holder.job)},
                                 {"since", string_value(run.holder.since)},
                                 {"message", string_value(run.message)},
                                 {"hash", string_value(run.job.hash)},
                                 {"folder", string_value(run.job.folder.string())},
                                 {"log", string_value(run.log)}})};
}

// "3 PENDING (Resources)", and how many tasks a name such as 12_[4-7] stands for is left to squeue.
std::string counts_text(const std::map<std::string, SlurmTask>& tasks, const std::string& job) {
  std::map<std::string, int> counts;
  for (const auto& [name, task] : tasks) {
    if (name == job || name.starts_with(job + "_")) ++counts[reason_text(task)];
  }
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts) parts.push_back(fmt::format("{} {}", count, what));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// What the last task that failed printed at the end: a worker that could not start leaves no run behind.
std::string last_words(const fs::path& out, const std::map<std::string, SlurmTask>& tasks,
                       const std::string& job) {
  std::string words;
  for (const auto& [name, task] : tasks) {
    if (!name.starts_with(job + "_") || task.state != "FAILED") continue;
    words = last_line((out / "slurm" / (name + ".log")).string());
  }
  return words;
}

Error no_sweep(const fs::path& out) {
  return {ErrorKind::kConflict,
          {.scope = out.string(),
           .key = "",
           .rule = "is not the folder of a sweep: it has no sweep.json",
           .value = "",
           .hint = "name the folder that posenc sweep wrote to"}};
}

Error not_failed(const RunView& run) {
  return {ErrorKind::kConflict,
          {.scope = "retry",
           .key = run.job.name,
           .rule = fmt::format("has not failed: it is {}", enum_name(run.state)),
           .value = "",
           .hint = run.state == ViewState::kDiverged
                       ? "it would diverge again; change the config, or remove its folder"
                       : "posenc sweep status shows the runs that failed"}};
}

bool is_called(const RunView& run, const std::string& name) {
  return run.job.name == name || run.job.folder.filename() == fs::path(name).filename();
}

}  // namespace

Plan plan_of_folder(const fs::path& out) {
  Plan plan;
  plan.file.out = out;
  std::set<std::string> known;
  for (const std::string& name : names_in(out)) {
    const bool of_shard = name.starts_with("sweep-") && name.ends_with(".json");
    if (name == "sweep.json" || of_shard) add_jobs(out / name, out, plan, known);
  }
  if (plan.jobs.empty()) throw no_sweep(out);
  return plan;
}

std::vector<RunView> view_runs(const Plan& plan, const std::map<std::string, SlurmTask>& tasks) {
  std::vector<RunView> runs;
  for (const JobReport& report : look_up(plan, plan.jobs)) {
    runs.push_back(view_of(report, plan.file.out, tasks));
  }
  return runs;
}

SweepView view_sweep(const fs::path& out) {
  SweepView view;
  view.plan = plan_of_folder(out);
  view.submissions = submissions(out);
  std::vector<std::string> jobs;
  for (const Submission& submission : view.submissions) jobs.push_back(submission.job);
  view.tasks = ask_slurm(jobs);
  view.runs = view_runs(view.plan, view.tasks);
  return view;
}

std::size_t count_of(const std::vector<RunView>& runs, ViewState state) {
  return std::count_if(runs.begin(), runs.end(),
                       [&](const RunView& run) { return run.state == state; });
}

std::vector<std::string> submission_lines(const fs::path& out, const SweepView& view) {
  std::vector<std::string> lines;
  for (const Submission& submission : view.submissions) {
    const std::string counts = counts_text(view.tasks, submission.job);
    const std::string words = last_words(out, view.tasks, submission.job);
    lines.push_back(fmt::format("job {}: {}{}", submission.job,
                                counts.empty() ? "Slurm does not know it any more" : counts,
                                words.empty() ? "" : "; the last that failed: " + words));
  }
  return lines;
}

Value view_value(const SweepView& view) {
  Value::Map counts;
  for (const auto state : {ViewState::kWaiting, ViewState::kHeld, ViewState::kDone,
                           ViewState::kDiverged, ViewState::kFailed}) {
    counts.push_back({std::string(enum_name(state)),
                      write_field(static_cast<std::int64_t>(count_of(view.runs, state)))});
  }
  Value::List runs;
  for (const RunView& run : view.runs) runs.push_back(run_value(run));
  Value::List tasks;
  for (const auto& [name, task] : view.tasks) {
    tasks.push_back({Value::Data(Value::Map{{"task", string_value(name)},
                                            {"state", string_value(task.state)},
                                            {"reason", string_value(task.reason)}})});
  }
  return {Value::Data(Value::Map{{"sweep", string_value(view.plan.file.path)},
                                 {"out", string_value(view.plan.file.out.string())},
                                 {"counts", {Value::Data(std::move(counts))}},
                                 {"runs", {Value::Data(std::move(runs))}},
                                 {"tasks", {Value::Data(std::move(tasks))}}})};
}

std::vector<RunView> runs_to_retry(const SweepView& view, const std::vector<std::string>& names) {
  std::vector<RunView> chosen;
  for (const std::string& name : names) {
    const auto run = std::find_if(view.runs.begin(), view.runs.end(),
                                  [&](const RunView& r) { return is_called(r, name); });
    if (run == view.runs.end()) {
      throw Error(ErrorKind::kUnknownKey,
                  {.scope = "retry",
                   .key = name,
                   .rule = fmt::format("is not a run of {}", view.plan.file.out.string()),
                   .value = "",
                   .hint = "posenc sweep status lists its runs"});
    }
    if (run->state != ViewState::kFailed) throw not_failed(*run);
    chosen.push_back(*run);
  }
  for (const RunView& run : view.runs) {
    if (names.empty() && run.state == ViewState::kFailed) chosen.push_back(run);
  }
  return chosen;
}

void mark_retry(const fs::path& out, const RunView& run) {
  // Where Slurm says that the holder is gone, there is no heartbeat to wait for: a clock that is past its limit.
  Watch::Clock::time_point now{};
  Watch watch([&] { return now; });
  const fs::path folder = lease_folder(out, run.job.hash);
  if (const auto last = last_attempt(folder); last && !last->end && run.holder_died) {
    (void)watch.look(*last);
    now += std::chrono::ceil<Watch::Clock::duration>(
        std::chrono::duration<double>(last->holder.limit + 1.0));
  }
  auto lease = Lease::take(folder, this_holder(), watch);
  if (!lease) {
    throw Error(ErrorKind::kConflict, {.scope = "retry",
                                       .key = run.job.name,
                                       .rule = "was just taken by another worker",
                                       .value = "",
                                       .hint = "posenc sweep status shows which"});
  }
  lease->end({AttemptState::kRetry, ""});
}

}  // namespace posenc::sweep
