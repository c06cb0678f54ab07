// Sweeps on a Slurm cluster: an array job whose tasks train the runs that no other task holds.
//
// Below the sweep's folder, which every node sees:
//
//   slurm/NAME.sh       the script that was submitted
//   slurm/JOB.json      a submission: Submission
//   slurm/JOB_TASK.log  what a task printed
//   slurm/JOB_TASK.json the summary of a task, as sweep.json
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "posenc/core/fields.h"
#include "sweep/plan.h"
#include "system/process.h"

namespace posenc::sweep {

// What sbatch is asked for. Empty and 0 leave a request to the cluster.
struct SlurmRequest {
  std::string partition;
  std::string time;               // as sbatch takes it: 90, 4:00:00, 2-12
  std::string memory;             // such as 16G
  int gpus = 0;                   // of each task
  int cpus = 0;                   // of each task
  int tasks = 0;                  // of the array
  int grace = 120;                // seconds before the time limit at which runs save and stop
  std::vector<std::string> more;  // further options of sbatch, such as --account=physics
};

// Minutes of a time as sbatch reads it; nothing where it is none, which sbatch then says.
std::optional<double> slurm_minutes(const std::string& time);
// The grace that fits into the time: at most a quarter of it, and 10 seconds at least.
int fitting_grace(const SlurmRequest& request);

// The script of an array job. Each task runs `worker` in the folder `here`, and prints to slurm/ below `out`.
std::string slurm_script(const SlurmRequest& request, const std::string& name,
                         const std::filesystem::path& out, const std::filesystem::path& here,
                         const std::vector<std::string>& worker);

// Changes where the jobs of a plan do.
std::string plan_hash(const Plan& plan);

struct Submission {
  std::string job;     // number of the array job
  std::string script;  // its file name, in slurm/
  std::int64_t tasks = 0;
  std::string submitted;  // UTC

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("job", self.job, FieldRule{.doc = "number of the array job", .required = true});
    visit("script", self.script, FieldRule{.doc = "file in the same folder", .required = true});
    visit("tasks", self.tasks, FieldRule{.doc = "of the array"});
    visit("submitted", self.submitted, FieldRule{.doc = "when, UTC"});
  }
};

// Throws an Error that says what to do where there is no sbatch in PATH.
void require_sbatch();
// Writes the script below `out` and returns its path.
std::filesystem::path write_script(const std::filesystem::path& out, const std::string& script);
// Submits a script of `out` with an array of `tasks` tasks, and records it. An Error has sbatch's reason.
Submission submit(const std::filesystem::path& out, const std::filesystem::path& script, int tasks);
// Oldest first.
std::vector<Submission> submissions(const std::filesystem::path& out);

// What Slurm knows of a task.
struct SlurmTask {
  std::string state;  // RUNNING, PENDING, COMPLETED, FAILED, TIMEOUT, OUT_OF_MEMORY, CANCELLED, ...
  std::string reason;  // where it has one
};
// By name: 12_3. Tasks that wait share one: 12_[4-7]. From sacct, or from scontrol where there is no accounting;
// nothing where neither answers.
std::map<std::string, SlurmTask> ask_slurm(const std::vector<std::string>& jobs);
std::map<std::string, SlurmTask> parse_sacct(const std::string& text);
std::map<std::string, SlurmTask> parse_scontrol(const std::string& text);
// Is it queued or running, so that it can be cancelled?
bool is_active(const SlurmTask& task);
bool is_queued(const SlurmTask& task);

// How a worker asks a job to save and end whose trainer is srun: srun kills its ranks when it gets SIGTERM, so that
// Slurm is asked to send it to them. Nothing where the trainer is another program, or this is no job of Slurm.
std::function<void(const Process&, int)> stop_of_steps(const std::vector<std::string>& trainer);

// Removes tasks that wait, and lets those that run save and end; `now`: Slurm ends them within its KillWait. An Error
// has scancel's reason.
void cancel_jobs(const std::vector<std::string>& jobs, bool now);

}  // namespace posenc::sweep
