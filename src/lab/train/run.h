// Training and evaluation as runs, which are directories.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "core/value.h"
#include "parallel/ranks.h"
#include "runs/progress.h"
#include "runs/run_directory.h"
#include "runs/scores.h"
#include "system/stop_request.h"

namespace posenc::train {

struct TrainOptions {
  std::filesystem::path out;
  bool resume = false;
  bool evaluate = true;  // at the end, all axes and lengths
  int threads = 0;
  std::vector<std::string> command_line;
  parallel::Ranks* ranks = nullptr;  // the processes that train together; rank 0 has the directory
};

enum class Outcome { kFinished, kStopped, kDiverged };

// Throws an Error where the processes of a launch cannot share the config's steps.
void check_share(const config::LabConfig& config, const parallel::Launch& launch);

// Trains into options.out, or takes up what is there. Everything that happens is in the directory's
// files; `progress` is for display.
Outcome train_run(const config::Loaded& loaded, const TrainOptions& options,
                  runs::Progress& progress, const StopRequest& stop);

struct EvalOptions {
  std::string encoding;  // another spec for every layer, with the same parameters
  std::string schedule;  // another RoPE schedule by name, stretched to each length
  std::vector<std::string> overrides;
  bool best = false;          // the best checkpoint instead of the last
  std::filesystem::path out;  // where to write the results; empty: the run's results.json
};

// What an evaluation found, as results.json and scores.bin have it.
struct Evaluated {
  Value results;
  runs::RunTallies scores;
};

// An Error for a name that no schedule has.
void check_schedule(const std::string& name);

// Nothing where it was stopped.
std::optional<Evaluated> evaluate_run(const std::filesystem::path& run, const EvalOptions& options,
                                      runs::Progress& progress, const StopRequest& stop);

// Writes what an evaluation found into the run. A run that has trained to its end and failed or was stopped
// in its evaluation is finished with that.
void keep_results(const runs::RunDirectory& run, const Evaluated& found);

}  // namespace posenc::train
