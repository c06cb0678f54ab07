// Runs the jobs of a sweep: one process each, several at a time. The run directories are the state: finished
// runs are skipped and interrupted ones continue, so a killed sweep is continued with the same command. Several
// sweeps may work on one folder, also from several machines: a job is run by the one that holds its lease
// (lease.h).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sweep/lease.h"
#include "sweep/plan.h"
#include "sweep/time_box.h"
#include "system/process.h"

namespace posenc::sweep {

enum class JobState {
  kNew,       // no run with this config in the sweep's folder
  kResume,    // there is one that has not come to its end, or was evaluated in another way
  kFinished,  // nothing to do
  kDiverged,  // it came to an end, and would again
  kInUse,     // another process trains it now, or holds its lease
  kRunning,
  kStopped,  // interrupted by a signal or by the time box
  kFailed,
};
constexpr std::array<std::string_view, 8> enum_names(JobState /*tag*/) {
  return {"new", "resume", "finished", "diverged", "in_use", "running", "stopped", "failed"};
}
std::string state_name(JobState state);

struct JobReport {
  Job job;
  JobState state = JobState::kNew;
  bool ran = false;    // started by this sweep
  bool boxed = false;  // stopped by the time box
  double seconds = 0.0;
  std::string message;  // why it failed: the run's own word, or the last line of its log
  std::string log;
};

// What the folder says about each job. A run is found by the hash of its config, whatever its name.
std::vector<JobReport> look_up(const Plan& plan, const std::vector<Job>& jobs);
// What the job's folder says now, where it has a run of the job.
void refresh(JobReport& report);
// Has it still to run?
bool is_waiting(const JobReport& report);

struct RunOptions {
  // Program and first words of a job; CONFIG, --set K=V, --out DIR, --resume,
  // --threads N and, in a time box, --minutes M follow.
  std::vector<std::string> trainer;
  int jobs = 1;
  int threads = 1;           // of each job
  std::string summary_file;  // brought up to date after every job
  std::vector<std::pair<std::string, std::string>> environment;  // set for every job
  // Who takes the leases of the jobs. A job that failed in the same session is not tried again.
  Holder holder = this_holder();
  std::size_t first =
      0;  // job to begin with: workers that start together begin with different ones
  // No job starts once its time is up; jobs that run are stopped.
  std::optional<TimeBox> time_box = {};
  // The number of a signal that asks to stop, or 0. It is forwarded once to all jobs, which save and
  // end; no further job starts.
  std::function<int()> stop = [] { return 0; };
  // How a job is asked to save and end, with the signal for it.
  std::function<void(const Process&, int)> ask_to_stop = [](const Process& job, int signal) {
    job.signal(signal);
  };
  // A second request to stop: kills jobs that are still saving.
  std::function<bool()> kill = [] { return false; };
};

struct Tally {
  std::size_t all = 0;
  std::size_t skipped = 0;   // finished before
  std::size_t finished = 0;  // by this sweep
  std::size_t failed = 0;
  std::size_t diverged = 0;
  std::size_t stopped = 0;  // by a signal or the time box
  std::size_t boxed = 0;    // of them, by the time box
  std::size_t in_use = 0;
  std::size_t running = 0;
  std::size_t waiting = 0;
};
Tally tally(const std::vector<JobReport>& reports);

// Called on the thread that runs the sweep.
struct Observer {
  std::function<void(const JobReport&)> started = [](const JobReport&) {};
  std::function<void(const JobReport&, const std::vector<JobReport>&)> ended =
      [](const JobReport&, const std::vector<JobReport>&) {};
};

// Runs what look_up left to do; the reports say what became of each job.
void run_jobs(const Plan& plan, std::vector<JobReport>& reports, const RunOptions& options,
              const Observer& observer);

// The most jobs that run at the same time: no more than there are to run.
int jobs_at_once(const std::vector<JobReport>& reports, const RunOptions& options);
// Whether jobs that are to run share the GPU with each other.
bool share_gpu(const std::vector<JobReport>& reports, const RunOptions& options);

// The command of one job, as run_jobs starts it with up to `at_once` jobs at the same time.
Command job_command(const Plan& plan, const JobReport& report, const RunOptions& options,
                    int at_once);

// sweep.json: the plan, how jobs were run (up to `at_once` at the same time) and what became of each.
Value summary(const Plan& plan, const std::vector<JobReport>& reports, const RunOptions& options,
              int at_once);

}  // namespace posenc::sweep
