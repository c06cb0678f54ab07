// Which runs belong together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

// Runs of one config but for the seed.
struct SeedGroup {
  std::string encoding;
  std::string shared;  // the config without encoding and seed: the key of a variant
  std::map<std::int64_t, const Run*> runs;  // by seed
};

struct TaskGroup {
  std::string task;
  std::vector<SeedGroup> groups;    // in the order of the runs
  std::vector<std::string> shared;  // variants, in that order
  std::vector<Variant> variants;
};

// Finished runs with results, by task. The others are left out with a word, and so is a second run of a
// config and seed.
std::vector<TaskGroup> group_runs(const std::vector<Run>& runs, std::vector<std::string>& left_out);

}  // namespace posenc::report
