// Which runs belong together.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "report/compare.h"

namespace posenc::report {

// What the runs of a variant share: all of the config but encoding and seed, one field a line.
struct SharedFields {
  std::string training;
  std::string eval;  // of results.json: results of different evaluations are never averaged
  std::vector<std::string> unread = {};  // fields of the config that have no effect, left out above

  bool operator==(const SharedFields&) const = default;
};

// Runs of one config but for the seed.
struct SeedGroup {
  std::string encoding;
  SharedFields shared;                        // the key of a variant
  std::map<std::int64_t, const Run*> runs;    // by seed; empty where all failed
  std::map<std::int64_t, const Run*> failed;  // diverged or failed, by seed
};

struct TaskGroup {
  std::string task;
  std::vector<SeedGroup> groups;     // in the order of the runs
  std::vector<SharedFields> shared;  // variants, in that order
  std::vector<Variant> variants;
  std::set<const Run*> overlapping;  // of all tasks (sharing.h)
};

// Finished runs with results, by task, and failed ones with the training config of such a variant. Others are
// left out with a remark, and so is a second run of a config and seed.
std::vector<TaskGroup> group_runs(const std::vector<Run>& runs, std::vector<std::string>& left_out);

// The runs behind an entry of the task's table.
const SeedGroup& seeds_of(const TaskGroup& task, const Entry& entry);

// Notes, once, why speeds of these entries are not compared; whether there is such a reason.
bool note_sharing(const TaskGroup& task, const std::vector<const Entry*>& entries,
                  TaskTable& table);

}  // namespace posenc::report
