#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "core/bind.h"
#include "posenc/core/fields.h"
#include "runs/run_directory.h"
#include "sweep/run.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;
using runs::RunState;

JobState state_of(const runs::RunDirectory& run, RunState state) {
  if (state == RunState::kFinished) return JobState::kFinished;
  if (state == RunState::kDiverged) return JobState::kDiverged;
  return run.in_use() ? JobState::kInUse : JobState::kResume;
}

struct Found {
  fs::path folder;
  JobState state = JobState::kNew;
  std::string message;
  std::string eval_hash;  // of its results
};

// Empty where there are none, where they are older than the field, or damaged.
std::string eval_hash_in(const runs::RunDirectory& run) {
  try {
    const std::optional<Value> results = run.results();
    const Value* hash = results ? results->find("eval_hash") : nullptr;
    const auto* text = hash == nullptr ? nullptr : hash->get_if<std::string>();
    return text == nullptr ? "" : *text;
  } catch (const Error&) {
    return "";
  }
}

Found found_in(const fs::path& folder, const runs::RunDirectory& run,
               const runs::RunStatus& status) {
  return {folder, state_of(run, status.state), status.message, eval_hash_in(run)};
}

void apply(const Found& run, JobReport& report) {
  report.job.folder = run.folder;
  report.state = run.state;
  report.message = run.message;
  // The trained model is the same: the trainer skips what is done and evaluates it.
  if (report.state == JobState::kFinished && run.eval_hash != report.job.eval_hash) {
    report.state = JobState::kResume;
    report.message = "trained; the evaluation is another one";
  }
}

// By hash. A folder whose status cannot be read is no run that could be skipped or resumed.
std::map<std::string, Found> runs_in(const fs::path& out) {
  std::map<std::string, Found> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, error)) {
    if (!runs::RunDirectory::exists(entry.path())) continue;
    try {
      const auto run = runs::RunDirectory::open(entry.path(), runs::Access::kRead);
      const runs::RunStatus status = run.status();
      Found& known = found[status.config_hash];
      // Of two runs of one config the finished one counts.
      if (known.folder.empty() || status.state == RunState::kFinished) {
        known = found_in(entry.path(), run, status);
      }
    } catch (const Error&) {
      continue;
    }
  }
  return found;
}

Value text(const std::string& s) { return Value::of_string(s); }

Value texts(const std::vector<std::string>& words) {
  Value::List list;
  for (const std::string& word : words) list.push_back(text(word));
  return {Value::Data(std::move(list))};
}

Value minutes_value(const RunOptions& options) {
  return options.time_box ? write_field(options.time_box->minutes()) : Value();
}

Value job_value(const JobReport& report) {
  return {Value::Data(Value::Map{{"name", text(report.job.name)},
                                 {"hash", text(report.job.hash)},
                                 {"eval_hash", text(report.job.eval_hash)},
                                 {"folder", text(report.job.folder.string())},
                                 {"set", texts(report.job.settings)},
                                 {"state", text(state_name(report.state))},
                                 {"ran", write_field(report.ran)},
                                 {"device", write_field(report.job.device)},
                                 {"seconds", write_field(report.seconds)},
                                 {"message", text(report.message)},
                                 {"log", text(report.log)}})};
}

}  // namespace

std::string state_name(JobState state) { return std::string(enum_name(state)); }

std::vector<JobReport> look_up(const Plan& plan, const std::vector<Job>& jobs) {
  const std::map<std::string, Found> found = runs_in(plan.file.out);
  std::vector<JobReport> reports;
  for (const Job& job : jobs) {
    JobReport report{.job = job};
    if (const auto run = found.find(job.hash); run != found.end()) apply(run->second, report);
    report.log =
        (plan.file.out / "logs" / (report.job.folder.filename().string() + ".log")).string();
    reports.push_back(std::move(report));
  }
  return reports;
}

void refresh(JobReport& report) {
  if (!runs::RunDirectory::exists(report.job.folder)) return;
  try {
    const auto run = runs::RunDirectory::open(report.job.folder, runs::Access::kRead);
    const runs::RunStatus status = run.status();
    if (status.config_hash == report.job.hash) {
      apply(found_in(report.job.folder, run, status), report);
    }
  } catch (const Error&) {
    return;  // no run that could be skipped or resumed
  }
}

bool is_waiting(const JobReport& report) {
  return report.state == JobState::kNew || report.state == JobState::kResume;
}

Tally tally(const std::vector<JobReport>& reports) {
  Tally t;
  t.all = reports.size();
  for (const JobReport& report : reports) {
    switch (report.state) {
      case JobState::kNew:
      case JobState::kResume:
        ++t.waiting;
        break;
      case JobState::kFinished:
        ++(report.ran ? t.finished : t.skipped);
        break;
      case JobState::kDiverged:
        ++t.diverged;
        break;
      case JobState::kInUse:
        ++t.in_use;
        break;
      case JobState::kRunning:
        ++t.running;
        break;
      case JobState::kStopped:
        ++t.stopped;
        t.boxed += report.boxed ? 1 : 0;
        break;
      case JobState::kFailed:
        ++t.failed;
        break;
    }
  }
  return t;
}

Value summary(const Plan& plan, const std::vector<JobReport>& reports, const RunOptions& options,
              int at_once) {
  const Tally t = tally(reports);
  const auto count = [](std::size_t n) { return write_field(static_cast<std::int64_t>(n)); };
  Value::List jobs;
  for (const JobReport& report : reports) jobs.push_back(job_value(report));
  return {Value::Data(Value::Map{{"sweep", text(plan.file.path)},
                                 {"base", text(plan.file.base.string())},
                                 {"out", text(plan.file.out.string())},
                                 {"jobs_at_once", write_field(std::int64_t{at_once})},
                                 {"threads", write_field(std::int64_t{options.threads})},
                                 {"minutes", minutes_value(options)},
                                 {"counts",
                                  {Value::Data(Value::Map{{"all", count(t.all)},
                                                          {"skipped", count(t.skipped)},
                                                          {"finished", count(t.finished)},
                                                          {"failed", count(t.failed)},
                                                          {"diverged", count(t.diverged)},
                                                          {"stopped", count(t.stopped)},
                                                          {"boxed", count(t.boxed)},
                                                          {"in_use", count(t.in_use)},
                                                          {"running", count(t.running)},
                                                          {"waiting", count(t.waiting)}})}},
                                 {"jobs", {Value::Data(std::move(jobs))}}})};
}

}  // namespace posenc::sweep
