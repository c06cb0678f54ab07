// What `posenc sweep` and `posenc reproduce` share: a plan run job by job, with lines, signals and a summary.
#include "cli/sweep_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

#include "cli/choices.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "command/ranges.h"
#include "sweep/gpu_service.h"
#include "sweep/slurm.h"
#include "system/stop_request.h"

namespace posenc::cli {
namespace {

using sweep::JobReport;
using sweep::JobState;

std::atomic<int> signal_seen = 0;
std::atomic<bool> signal_again = false;
std::atomic<std::int64_t> first_seen_ms = 0;
static_assert(std::atomic<int>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "a signal handler sets them");

// Some programs send a signal to a process and to its group: what comes twice within a second is one
// request. The sweep itself never ends before its jobs, which would go on without it.
extern "C" void note_stop(int number) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ms = std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
  if (signal_seen == 0) {
    first_seen_ms = ms;
    signal_seen = number;
  } else if (ms - first_seen_ms > 1000) {
    signal_again = true;
  }
}

void watch_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (std::signal(number, note_stop) == SIG_IGN) std::signal(number, SIG_IGN);  // nohup
  }
}

// Words between blanks: a command such as "srun -n1 posenc train".
std::vector<std::string> trainer_words(const std::string& text) {
  if (text.empty()) return {std::filesystem::read_symlink("/proc/self/exe").string(), "train"};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::string time_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

// One line when a job starts, two when it ends: what became of it, and how far all are.
class Lines {
 public:
  Lines(std::size_t to_run, int jobs) : to_run_(to_run), jobs_(jobs) {}

  sweep::Observer observer() {
    return {
        .started =
            [this](const JobReport& report) {
              to_run_ = std::max(to_run_, ++started_);  // another worker may have left some
              print_line(fmt::format("[{}/{}] start     {}", started_, to_run_, report.job.name));
            },
        .ended = [this](const JobReport& report,
                        const std::vector<JobReport>& all) { ended(report, all); }};
  }

 private:
  void ended(const JobReport& report, const std::vector<JobReport>& all) {
    ++ended_;
    seconds_ += report.seconds;
    print_line(fmt::format("[{}/{}] {:<9} {}  {}{}{}", ended_, to_run_, state_name(report.state),
                           report.job.name, time_text(report.seconds),
                           report.message.empty() ? "" : ": ", report.message));
    const sweep::Tally t = sweep::tally(all);
    if (t.running + t.waiting == 0 || t.stopped > 0) return;
    const double mean = seconds_ / static_cast<double>(ended_);
    const double left = mean * static_cast<double>(to_run_ - ended_) / jobs_;
    print_line(fmt::format("  {} of {} ended, {} running, {} failed; about {} left", ended_,
                           to_run_, t.running, t.failed + t.diverged, time_text(left)));
  }

  std::size_t to_run_;
  int jobs_;
  std::size_t started_ = 0;
  std::size_t ended_ = 0;
  double seconds_ = 0.0;
};

std::string what_happens(JobState state) {
  switch (state) {
    case JobState::kNew:
      return "run";
    case JobState::kResume:
      return "resume";
    case JobState::kFinished:
      return "skip: finished";
    case JobState::kDiverged:
      return "skip: diverged";
    case JobState::kInUse:
      return "skip: in use";
    default:
      return sweep::state_name(state);
  }
}

bool time_is_up(const sweep::Tally& t, const sweep::RunOptions& options) {
  return options.time_box && signal_seen == 0 && t.stopped + t.waiting > 0;
}

std::string time_box_text(const sweep::Tally& t) {
  const std::string stopped = fmt::format("{} stopped by the time box", t.boxed);
  return fmt::format("{}{}; run the same command again to go on", stopped,
                     t.waiting == 0 ? "" : fmt::format(", {} not started", t.waiting));
}

void print_summary(const std::vector<JobReport>& reports, double seconds,
                   const sweep::RunOptions& options, const std::string& out) {
  for (const JobReport& report : reports) {
    if (report.state != JobState::kFailed && report.state != JobState::kDiverged) continue;
    print_line(fmt::format("{}: {}: {}\n  log: {}", state_name(report.state), report.job.name,
                           report.message, report.log));
  }
  const sweep::Tally t = sweep::tally(reports);
  std::vector<std::string> parts;
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(t.finished, "finished");
  add(t.skipped, "finished before");
  add(t.failed, "failed");
  add(t.diverged, "diverged");
  add(t.stopped, "stopped");
  add(t.waiting, "not started");
  add(t.in_use, "in use by another process");
  print_line(fmt::format("{} jobs in {}: {}", t.all, time_text(seconds), fmt::join(parts, ", ")));
  if (time_is_up(t, options)) print_line(time_box_text(t));
  print_line(fmt::format("summary: {}; table: posenc compare {}", options.summary_file, out));
}

// Of a task of an array job: what other tasks did is theirs, and being stopped is no failure.
int worker_code(const std::vector<JobReport>& reports) {
  const bool failed = std::any_of(reports.begin(), reports.end(), [](const JobReport& report) {
    return report.ran && (report.state == JobState::kFailed || report.state == JobState::kDiverged);
  });
  return failed ? kFailure : kFine;
}

int exit_code(const std::vector<JobReport>& reports, const sweep::RunOptions& options) {
  if (signal_seen != 0) return 128 + signal_seen;
  const sweep::Tally t = sweep::tally(reports);
  if (t.failed + t.diverged > 0) return kFailure;
  return time_is_up(t, options) ? kTimeIsUp : kFine;
}

std::size_t left_to_do(const std::vector<JobReport>& reports) {
  return sweep::tally(reports).waiting;
}

std::string heading(const sweep::Plan& plan, const std::vector<JobReport>& reports,
                    const sweep::RunOptions& options) {
  return fmt::format(
      "{}: {} of {} jobs to run in {}, {} at a time with {} {} each{}", plan.file.path,
      left_to_do(reports), reports.size(), plan.file.out.string(), options.jobs, options.threads,
      options.threads == 1 ? "thread" : "threads",
      plan.repeated == 0
          ? ""
          : fmt::format(" ({} combinations are the same config as another)", plan.repeated));
}

// What Slurm gave this job, else what the machine has.
int cores() {
  for (const char* name : {"SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE"}) {
    const char* text = std::getenv(name);
    const int number = text == nullptr ? 0 : std::atoi(text);
    if (number > 0) return number;
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// Tasks of one submission know each other by its number, and begin with different runs.
void set_holder(const SessionOptions& options, std::size_t jobs, sweep::RunOptions& run) {
  const char* array = std::getenv("SLURM_ARRAY_JOB_ID");
  const char* task = std::getenv("SLURM_ARRAY_TASK_ID");
  const bool in_array = options.worker && array != nullptr && task != nullptr;
  run.holder = sweep::this_holder(in_array ? array : "", options.lease);
  if (in_array && jobs > 0) run.first = static_cast<std::size_t>(std::atoi(task)) % jobs;
}

sweep::RunOptions run_options(const SessionOptions& options, const sweep::Plan& plan,
                              const std::string& summary_name) {
  sweep::RunOptions run;
  run.trainer = trainer_words(options.trainer);
  run.jobs = options.jobs;
  run.threads = options.threads > 0 ? options.threads : std::max(1, cores() / options.jobs);
  set_holder(options, plan.jobs.size(), run);
  const std::string own = "slurm/" + run.holder.job + ".json";
  const bool of_task = options.worker && !run.holder.job.empty();
  run.summary_file = (plan.file.out / (of_task ? own : summary_name)).string();
  run.stop = [said = false]() mutable -> int {
    if (signal_seen != 0 && !std::exchange(said, true)) {
      print_line("stopping: running jobs will save and exit; no new jobs will start");
    }
    return signal_seen;
  };
  if (auto stop = sweep::stop_of_steps(run.trainer)) run.ask_to_stop = std::move(stop);
  run.kill = [] { return signal_again.exchange(false); };
  return run;
}

void print_remark(const sweep::GpuService& service) {
  if (service.failed()) {
    print_error("posenc: warning: {}", service.remark());
  } else {
    print_line(service.remark());
  }
}

}  // namespace

void add_session_options(CLI::App& verb, SessionOptions& options) {
  verb.add_option("--jobs", options.jobs, "jobs at a time")->check(command::integer_in(1, 4096));
  verb.add_option("--threads", options.threads, "threads of each job (default: cores / jobs)")
      ->check(command::integer_in(1, 1024));
  verb.add_option("--set", options.settings, "for every job, such as train.steps=100")
      ->allow_extra_args(false);
  verb.add_option("--device", options.device, "cpu or cuda, as --set train.device=...")
      ->check(CLI::IsMember(names_of<config::Device>()));
  verb.add_option("--minutes", options.minutes,
                  "time box: jobs save and end in time, exit code 75 if some are left");
  verb.add_flag("--no-mps", options.no_mps,
                "do not start NVIDIA's multi-process service for several jobs on a GPU");
  verb.add_option("--trainer", options.trainer,
                  "what runs a job (default: posenc train), words between blanks");
  verb.add_option("--lease", options.lease,
                  "seconds without a heartbeat after which another machine's run is taken over")
      ->check(command::number_in(1.0, 86400.0))
      ->capture_default_str();
  verb.add_flag("--dry-run", options.dry_run, "print the jobs and what would become of each");
}

void add_session_words(const SessionOptions& options, std::vector<std::string>& words) {
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  for (const std::string& setting : options.settings) add("--set", setting);
  if (options.jobs != 1) add("--jobs", std::to_string(options.jobs));
  if (options.threads > 0) add("--threads", std::to_string(options.threads));
  if (!options.device.empty()) add("--device", options.device);
  if (!options.trainer.empty()) add("--trainer", options.trainer);
  if (options.lease != sweep::kLeaseSeconds) add("--lease", fmt::format("{}", options.lease));
  if (options.no_mps) words.emplace_back("--no-mps");
}

void print_jobs(const std::vector<JobReport>& reports) {
  Table table({"what", "job", "folder"});
  for (const JobReport& report : reports) {
    table.add({what_happens(report.state), report.job.name, report.job.folder.string()});
  }
  print_table(table);
}

void print_line(const std::string& line) {
  print("{}\n", line);
  std::fflush(stdout);
}

sweep::Plan plan_for(sweep::SweepFile file, const SessionOptions& options) {
  if (options.device.empty()) return sweep::make_plan(std::move(file), options.settings);
  const auto device = value_of<config::Device>(options.device);
  const auto settings = sweep::with_device(file, options.settings, device);
  sweep::Plan plan = sweep::make_plan(std::move(file), settings);
  sweep::require_device(plan, device);
  return plan;
}

std::optional<sweep::TimeBox> time_box(const SessionOptions& options) {
  if (!options.minutes) return std::nullopt;
  return sweep::TimeBox(*options.minutes);
}

SessionResult run_session(const sweep::Plan& plan, const std::vector<sweep::Job>& jobs,
                          const SessionOptions& options,
                          const std::optional<sweep::TimeBox>& time_box,
                          const std::string& summary_name) {
  SessionResult result{.reports = look_up(plan, jobs)};
  sweep::RunOptions run = run_options(options, plan, summary_name);
  run.time_box = time_box;
  print_line(heading(plan, result.reports, run));
  if (options.dry_run) {
    print_jobs(result.reports);
    return result;
  }
  watch_signals();
  std::optional<sweep::GpuService> service;  // shut down after the jobs, however they end
  if (!options.no_mps && share_gpu(result.reports, run)) {
    service.emplace(time_box ? time_box->service_limit() : sweep::kServiceLimit);
    run.environment = service->job_environment();
    print_remark(*service);
  }
  Lines lines(left_to_do(result.reports), options.jobs);
  const auto since = std::chrono::steady_clock::now();
  run_jobs(plan, result.reports, run, lines.observer());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
  print_summary(result.reports, took.count(), run, plan.file.out.string());
  result.code = options.worker ? worker_code(result.reports) : exit_code(result.reports, run);
  result.interrupted = signal_seen != 0;
  result.time_is_up = time_is_up(sweep::tally(result.reports), run);
  return result;
}

}  // namespace posenc::cli
