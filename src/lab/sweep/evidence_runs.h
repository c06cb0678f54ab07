// Finds the job of a plan to which a run belongs, independent of its device and age.
//
// A run's hash covers its device and every field that existed when it was trained. Here its config is read
// again, so that newer fields have their defaults, and the device is ignored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "core/value.h"
#include "sweep/plan.h"

namespace posenc::sweep {

struct KeptRun {
  std::string name;           // for messages
  Value config;               // config.yaml
  std::optional<Value> eval;  // the evaluation's fields in results.json; nothing for a failed run
};

struct RunMatch {
  std::size_t jobs_with_runs = 0;
  std::vector<std::string> problems;  // a line each
};

// Every run has to be a job of the plan, evaluated as the plan says, and each job has one run at most.
RunMatch match_runs(const Plan& plan, const std::vector<KeptRun>& runs);

// The configs of the jobs, in their order.
std::vector<config::LabConfig> configs_of(const Plan& plan);
// The encodings that jobs of the plan train, in their order.
std::vector<std::string> encodings_of(const Plan& plan);

}  // namespace posenc::sweep
