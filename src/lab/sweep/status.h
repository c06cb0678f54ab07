// Reports the state of a sweep's folder from its run directories, leases and Slurm. Nothing is changed.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/lease.h"
#include "sweep/run.h"
#include "sweep/slurm.h"

namespace posenc::sweep {

enum class ViewState { kWaiting, kHeld, kDone, kDiverged, kFailed };
constexpr std::array<std::string_view, 5> enum_names(ViewState /*tag*/) {
  return {"waiting", "held", "done", "diverged", "failed"};
}

struct RunView {
  Job job;
  ViewState state = ViewState::kWaiting;
  std::int64_t step = 0;
  std::int64_t attempts = 0;
  Holder holder;        // of the last attempt
  std::string message;  // why it failed; what is known of a run that waits or is held
  std::string log;
  bool holder_died = false;  // the last attempt has no end, and its process or job is gone
};

struct SweepView {
  Plan plan;  // jobs of the folder, without the points of its file
  std::vector<RunView> runs;
  std::vector<Submission> submissions;
  std::map<std::string, SlurmTask> tasks;  // what Slurm says of them
};

// The jobs of a folder, from its sweep.json and those of shards. An Error where it has none.
Plan plan_of_folder(const std::filesystem::path& out);

SweepView view_sweep(const std::filesystem::path& out);
// As view_sweep, with Slurm's answer given.
std::vector<RunView> view_runs(const Plan& plan, const std::map<std::string, SlurmTask>& tasks);

std::size_t count_of(const std::vector<RunView>& runs, ViewState state);
// "job 12: 3 PENDING (Resources), 1 FAILED: what the last of them printed"
std::vector<std::string> submission_lines(const std::filesystem::path& out, const SweepView& view);
// As JSON: out, counts, runs, submissions.
Value view_value(const SweepView& view);

// Runs to try again: all that failed, or those of these names. An Error where a name is unknown or the run has not
// failed.
std::vector<RunView> runs_to_retry(const SweepView& view, const std::vector<std::string>& names);
// Records that a run is to be tried again, so that no worker counts its failure.
void mark_retry(const std::filesystem::path& out, const RunView& run);

}  // namespace posenc::sweep
