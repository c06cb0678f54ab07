#include "sweep/run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <thread>

#include "core/open_file.h"
#include "runs/files.h"
#include "runs/run_directory.h"
#include "sweep/claim.h"
#include "system/end_with_parent.h"
#include "system/stop_request.h"

namespace posenc::sweep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPause = std::chrono::milliseconds(20);
constexpr auto kLook =
    std::chrono::milliseconds(500);  // between looks at a lease of another machine

struct Running {
  JobReport* report;
  Process process;
  Clock::time_point since;
  Lease lease;
  bool lost = false;  // its lease
};

// A job that may be run, and what was seen of its lease.
struct Candidate {
  JobReport* report;
  Watch watch = Watch();
  Clock::time_point next_look = {};
};

AttemptState attempt_state(JobState state) {
  switch (state) {
    case JobState::kFinished:
      return AttemptState::kFinished;
    case JobState::kDiverged:
      return AttemptState::kDiverged;
    case JobState::kFailed:
      return AttemptState::kFailed;
    default:
      return AttemptState::kStopped;
  }
}

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
      : plan_(plan),
        reports_(reports),
        options_(options),
        observer_(observer),
        at_once_(jobs_at_once(reports, options)) {}

  void run() {
    NewFolders folders(plan_.file.out / "logs");
    folders.keep();
    tidy_leases(plan_.file.out);
    write_summary();
    add_candidates(is_waiting);
    while (true) {
      forward_stop();
      close_time_box();
      keep_leases();
      start_candidates();
      if (running_.empty() && !may_go_on()) break;
      reap();
    }
    write_summary();
  }

 private:
  [[nodiscard]] bool may_start() const {
    return signal_ == 0 && !time_is_up_ && (!options_.time_box || options_.time_box->may_start());
  }

  template <class Wanted>
  void add_candidates(const Wanted& wanted) {
    started_any_ = false;
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      JobReport& report = reports_[(i + options_.first) % reports_.size()];
      if (wanted(report)) candidates_.push_back({&report});
    }
  }

  // With nothing running: whether leases are watched, or jobs that others held may be free by now.
  bool may_go_on() {
    if (!may_start()) return false;
    if (candidates_.empty() && started_any_) {
      add_candidates([](const JobReport& r) { return r.state == JobState::kInUse && !r.ran; });
    }
    return !candidates_.empty();
  }

  void start_candidates() {
    for (auto next = candidates_.begin(); next != candidates_.end() && may_start();) {
      if (running_.size() >= static_cast<std::size_t>(options_.jobs)) return;
      const bool looked = Clock::now() >= next->next_look;
      if (looked && !try_to_start(*next)) {
        next = candidates_.erase(next);
      } else {
        if (looked) next->next_look = Clock::now() + kLook;
        ++next;
      }
    }
  }

  // Whether to look at it again later.
  bool try_to_start(Candidate& candidate) {
    JobReport& report = *candidate.report;
    try {
      Claim claim = claim_job(plan_.file.out, report, options_.holder, candidate.watch);
      if (claim.lease) start(report, std::move(*claim.lease));
      return claim.look_again;
    } catch (const Error& e) {
      report.state = JobState::kFailed;
      report.message = e.what();
      observer_.ended(report, reports_);
      return false;
    }
  }

  void start(JobReport& report, Lease lease) {
    started_any_ = true;
    const Command command = job_command(plan_, report, options_, at_once_);
    report.state = JobState::kRunning;
    report.ran = true;
    observer_.started(report);
    try {
      // A FIFO in place of the log would block the job before its first line.
      (void)open_regular(report.log, O_WRONLY | O_CREAT | O_APPEND);
      running_.push_back({&report, Process(command), Clock::now(), std::move(lease)});
    } catch (const Error& e) {
      report.state = JobState::kFailed;
      report.message = e.what();
      lease.end({AttemptState::kFailed, report.message});
      observer_.ended(report, reports_);
    }
  }

  // A job whose lease is lost writes into a run of another process: it is killed.
  void keep_leases() {
    for (Running& job : running_) {
      if (job.lost || job.lease.keep()) continue;
      job.lost = true;
      job.process.signal(SIGKILL);
    }
  }

  void stop_job(const Running& job, int signal) const {
    if (signal == SIGKILL) {
      job.process.signal(signal);
    } else {
      options_.ask_to_stop(job.process, signal);
    }
  }

  // A signal that came while jobs were being started reaches all of them, each once. Jobs that the time
  // box has asked to save get no second one, which would end them.
  void forward_stop() {
    if (signal_ == 0) signal_ = options_.stop();
    if (signal_ == 0) return;
    const bool kill = options_.kill();
    if (forwarded_ && !kill) return;
    forwarded_ = true;
    for (const Running& job : running_) {
      if (kill || !time_box_closed_) stop_job(job, kill ? SIGKILL : signal_);
    }
  }

  // Asks jobs that did not end by themselves in time to save, unless a signal has; kills them at the end.
  void close_time_box() {
    if (!options_.time_box || !options_.time_box->asks_to_save()) return;
    const bool kill = options_.time_box->kills();
    if (time_box_closed_ && !kill) return;
    const bool saving = time_box_closed_ || signal_ != 0;
    time_is_up_ = time_box_closed_ = true;
    for (const Running& job : running_) {
      if (kill || !saving) stop_job(job, kill ? SIGKILL : SIGTERM);
    }
  }

  void reap() {
    bool any = false;
    for (auto job = running_.begin(); job != running_.end();) {
      if (const auto ending = job->process.poll()) {
        finish(*job, *ending);
        job = running_.erase(job);
        any = true;
      } else {
        ++job;
      }
    }
    if (!any) std::this_thread::sleep_for(kPause);
  }

  void finish(Running& job, const Ending& ending) {
    JobReport& report = *job.report;
    report.seconds = std::chrono::duration<double>(Clock::now() - job.since).count();
    if (job.lost) {
      report.state = JobState::kInUse;
      report.message = "its lease was lost to another worker";
    } else {
      judge(report, ending);
    }
    job.lease.end({attempt_state(report.state), report.message});
    observer_.ended(report, reports_);
    write_summary();
  }

  void judge(JobReport& report, const Ending& ending) {
    const auto status = status_of(report);
    // A scheduler signals this process and its jobs together: one that has ended already was stopped, and did not fail.
    if (signal_ == 0) signal_ = options_.stop();
    const bool by_itself = options_.time_box && ending.code == kTimeIsUp;
    time_is_up_ = time_is_up_ || by_itself;  // what is left is too short for another job, too
    report.state = end_state(ending, status, signal_ != 0 || time_box_closed_ || by_itself);
    report.boxed = report.state == JobState::kStopped && signal_ == 0;
    report.message = report.boxed ? "the time box ended" : end_message(report, ending, status);
  }

  void write_summary() const {
    if (options_.summary_file.empty()) return;
    runs::write_json(options_.summary_file, summary(plan_, reports_, options_, at_once_));
  }

  const Plan& plan_;
  std::vector<JobReport>& reports_;
  const RunOptions& options_;
  const Observer& observer_;
  int at_once_;
  std::list<Candidate> candidates_;
  std::list<Running> running_;
  bool started_any_ = false;  // since the candidates were listed
  int signal_ = 0;
  bool forwarded_ = false;
  bool time_is_up_ = false;       // no further job starts
  bool time_box_closed_ = false;  // and those that run were asked to save
};

}  // namespace

int jobs_at_once(const std::vector<JobReport>& reports, const RunOptions& options) {
  const auto waiting = std::count_if(reports.begin(), reports.end(), is_waiting);
  return static_cast<int>(std::clamp<std::ptrdiff_t>(waiting, 1, options.jobs));
}

bool share_gpu(const std::vector<JobReport>& reports, const RunOptions& options) {
  return jobs_at_once(reports, options) > 1 &&
         std::any_of(reports.begin(), reports.end(), [](const JobReport& report) {
           return is_waiting(report) && report.job.device == config::Device::kCuda;
         });
}

Command job_command(const Plan& plan, const JobReport& report, const RunOptions& options,
                    int at_once) {
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
  if (options.time_box) {
    command.words.insert(command.words.end(), {"--minutes", options.time_box->job_minutes()});
  }
  command.environment = options.environment;
  command.environment.insert(command.environment.end(),
                             {{kWorkerVariable, std::to_string(::getpid())},
                              {"OMP_NUM_THREADS", threads},
                              {"OPENBLAS_NUM_THREADS", threads},
                              {"POSENC_JOBS_AT_ONCE", std::to_string(at_once)}});
  if (report.job.device == config::Device::kCuda) {
    // A twentieth is left to the contexts of the driver.
    command.environment.emplace_back("POSENC_GPU_SHARE", fmt::format("{:.4f}", 0.95 / at_once));
  }
  command.own_group = true;
  return command;
}

void run_jobs(const Plan& plan, std::vector<JobReport>& reports, const RunOptions& options,
              const Observer& observer) {
  Runner(plan, reports, options, observer).run();
}

}  // namespace posenc::sweep
