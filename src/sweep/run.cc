#include "sweep/run.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <thread>

#include "core/open_file.h"
#include "runs/files.h"
#include "runs/run_directory.h"

namespace posenc::sweep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(20);

struct Running {
  JobReport* report;
  Process process;
  Clock::time_point since;
};

// The run's own account of how it ended, if it got as far as having one.
std::optional<runs::RunStatus> status_of(const JobReport& report) {
  try {
    return runs::RunDirectory::open(report.job.folder, runs::Access::kRead).status();
  } catch (const Error&) {
    return std::nullopt;
  }
}

JobState end_state(const Ending& ending, const std::optional<runs::RunStatus>& status,
                   bool stopping) {
  if (status && status->state == runs::RunState::kDiverged) return JobState::kDiverged;
  if (status && status->state == runs::RunState::kFinished && ending.fine()) {
    return JobState::kFinished;
  }
  return stopping ? JobState::kStopped : JobState::kFailed;
}

std::string end_message(const JobReport& report, const Ending& ending,
                        const std::optional<runs::RunStatus>& status) {
  if (report.state == JobState::kFinished || report.state == JobState::kStopped) return "";
  if (status && !status->message.empty()) return status->message;
  const std::string said = last_line(report.log);
  const std::string how = ending.fine() ? "it ended without a finished run" : ending_text(ending);
  return said.empty() ? how : fmt::format("{}: {}", how, said);
}

class Runner {
 public:
  Runner(const Plan& plan, std::vector<JobReport>& reports, const RunOptions& options,
         const Observer& observer)
      : plan_(plan), reports_(reports), options_(options), observer_(observer) {}

  void run() {
    runs::NewFolders folders(plan_.file.out / "logs");
    folders.keep();
    write_summary();
    auto next = reports_.begin();
    while (true) {
      forward_stop();
      while (signal_ == 0 && running_.size() < static_cast<std::size_t>(options_.jobs)) {
        next = std::find_if(next, reports_.end(), is_waiting);
        if (next == reports_.end()) break;
        start(*next++);
      }
      if (running_.empty()) break;
      reap();
    }
    write_summary();
  }

 private:
  static bool is_waiting(const JobReport& report) {
    return report.state == JobState::kNew || report.state == JobState::kResume;
  }

  void start(JobReport& report) {
    const Command command = job_command(plan_, report, options_);
    report.state = JobState::kRunning;
    report.ran = true;
    observer_.started(report);
    try {
      // A FIFO in place of the log would block the job before its first line.
      (void)open_regular(report.log, O_WRONLY | O_CREAT | O_APPEND);
      running_.push_back({&report, Process(command), Clock::now()});
    } catch (const Error& e) {
      report.state = JobState::kFailed;
      report.message = e.what();
      observer_.ended(report, reports_);
    }
  }

  // A signal that came while jobs were being started reaches all of them, each once.
  void forward_stop() {
    if (signal_ == 0) signal_ = options_.stop();
    if (signal_ == 0) return;
    const bool kill = options_.kill();
    if (forwarded_ && !kill) return;
    forwarded_ = true;
    for (const Running& job : running_) job.process.signal(kill ? SIGKILL : signal_);
  }

  void reap() {
    bool any = false;
    for (auto job = running_.begin(); job != running_.end();) {
      if (const auto ending = job->process.poll()) {
        finish(*job->report, *ending, job->since);
        job = running_.erase(job);
        any = true;
      } else {
        ++job;
      }
    }
    if (!any) std::this_thread::sleep_for(kPause);
  }

  void finish(JobReport& report, const Ending& ending, Clock::time_point since) {
    const auto status = status_of(report);
    report.seconds = std::chrono::duration<double>(Clock::now() - since).count();
    report.state = end_state(ending, status, signal_ != 0);
    report.message = end_message(report, ending, status);
    observer_.ended(report, reports_);
    write_summary();
  }

  void write_summary() const {
    if (options_.summary_file.empty()) return;
    runs::write_json(options_.summary_file, summary(plan_, reports_));
  }

  const Plan& plan_;
  std::vector<JobReport>& reports_;
  const RunOptions& options_;
  const Observer& observer_;
  std::list<Running> running_;
  int signal_ = 0;
  bool forwarded_ = false;
};

}  // namespace

Command job_command(const Plan& plan, const JobReport& report, const RunOptions& options) {
  Command command;
  command.words = options.trainer;
  command.words.push_back(plan.file.base.string());
  for (const std::string& setting : report.job.settings) {
    command.words.insert(command.words.end(), {"--set", setting});
  }
  command.words.insert(command.words.end(), {"--out", report.job.folder.string()});
  if (report.state == JobState::kResume) command.words.emplace_back("--resume");
  command.output = report.log;
  const std::string threads = std::to_string(options.threads);
  command.words.insert(command.words.end(), {"--threads", threads});
  command.environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}};
  command.own_group = true;
  return command;
}

void run_jobs(const Plan& plan, std::vector<JobReport>& reports, const RunOptions& options,
              const Observer& observer) {
  Runner(plan, reports, options, observer).run();
}

}  // namespace posenc::sweep
