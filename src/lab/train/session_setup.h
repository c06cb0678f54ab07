// The evaluations of a run, and their checks before the model exists.
#pragma once

#include <memory>
#include <vector>

#include "config/load.h"
#include "runs/progress.h"
#include "system/stop_request.h"
#include "train/evaluate.h"

namespace posenc::train {

EvalSetting eval_setting(const config::LabConfig& config, at::Device device,
                         const StopRequest& stop, parallel::Ranks* ranks = nullptr);

struct Evaluations {
  EvalSetting setting;
  std::vector<EvalCase> cases;
};

// What this run will evaluate: at its end on the test split, on the way on the validation split.
std::vector<Evaluations> evaluations_to_come(const config::LabConfig& config, bool evaluate,
                                             const tasks::Task& task, const EvalSetting& setting);

// Before there is a model, which may not fit into memory.
std::unique_ptr<tasks::Task> checked_task(const config::LabConfig& config, bool evaluate,
                                          runs::Progress& progress, const StopRequest& stop,
                                          parallel::Ranks* ranks = nullptr);

}  // namespace posenc::train
