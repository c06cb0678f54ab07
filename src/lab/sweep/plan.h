// A sweep file, and the jobs that it defines.
//
//   base: config.yaml                 relative to the sweep file
//   out: runs/name                    relative to where the command runs
//   grid:                             every combination
//     model.encoding: [none, rope, "rope(theta=500000) + alibi"]
//     seed: [0, 1, 2]
//   also:                             further grids
//     - {model.encoding: cope, model.layers: [2, 4], seed: 0}
//   exclude:                          combinations that have all of these values
//     - {model.encoding: none, seed: 2}
//
// A list holds the values to try; put a value that is itself a list inside another list.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/train_config.h"
#include "core/value.h"

namespace posenc::sweep {

struct SweepFile {
  std::string path;
  std::filesystem::path base;
  std::filesystem::path out;
  // Assignments such as "seed=2", in the order of the file: one list per combination.
  std::vector<std::vector<std::string>> points;
};

// Errors are signed with the path, and say line and column.
SweepFile read_sweep(const std::string& path);
SweepFile parse_sweep(std::string_view yaml, const std::string& path);
// The combinations of grid, also and exclude of a map; `prefix` stands before the keys in errors.
std::vector<std::vector<std::string>> read_points(const Value& tree, const std::string& path,
                                                  const std::string& prefix = "");

struct Job {
  std::string name;                              // "rope-seed0": the values that vary
  std::vector<std::string> settings;             // what --set is given
  std::string hash;                              // of what decides the trained model
  std::string eval_hash;                         // of what decides the figures of its evaluation
  std::filesystem::path folder;                  // of its run
  config::Device device = config::Device::kCpu;  // that it trains on
};

struct Plan {
  SweepFile file;
  std::vector<Job> jobs;     // in the order of the file
  std::size_t repeated = 0;  // combinations that resolve to the same config as an earlier one
};

// Loads the config of every combination, so that a mistake in any of them is said before the first
// starts. `settings` hold for all jobs and may not name what the sweep varies. Combinations that train the
// same model and evaluate it in different ways are refused: a run has one evaluation.
Plan make_plan(SweepFile file, const std::vector<std::string>& settings);

// `settings` and train.device=`device`, unless they or the file set it already. An Error from
// require_device says where they set another one.
std::vector<std::string> with_device(const SweepFile& file, std::vector<std::string> settings,
                                     config::Device device);
void require_device(const Plan& plan, config::Device device);

// Part `part` of `parts`, from 1: every parts-th job in the order of the hashes. Depends on the jobs
// alone, so machines that share nothing but the sweep file agree; all parts together are all jobs.
std::vector<Job> shard(std::vector<Job> jobs, int part, int parts);

// "--set" for this value: a text that reads back as the same value.
std::string assignment_text(const std::string& key, const Value& value);

}  // namespace posenc::sweep
