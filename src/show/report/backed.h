// Which entries of a table may be called best: those that tests put ahead of every other one.
#pragma once

#include <vector>

#include "report/compare.h"
#include "statistics/tested_table.h"

namespace posenc::report {

// An entry under a schedule; empty: the models' own.
struct TestedRow {
  std::size_t entry = 0;
  std::string schedule;

  bool operator==(const TestedRow&) const = default;
};

// One condition of one variant, and the rows that its encodings are.
struct TestedCondition {
  std::size_t variant = 0;
  Merit merit = Merit::kInDistribution;
  statistics::ConditionScores scores;
  std::vector<TestedRow> rows;  // of the table, in the order of the scores' encodings
  std::size_t shown = 0;        // rows that the table has here, also those without scores
  bool longer = false;          // than the trained length: models have other schedules there alone
};

statistics::TestedTable test_conditions(const std::vector<TestedCondition>& conditions);

// In domain and in speed: ahead of every other entry. Beyond training: so in one condition or more, and
// nothing ahead of it in the others. An entry that could not be tested leaves no best.
void add_backed(const statistics::TestedTable& tested,
                const std::vector<TestedCondition>& conditions, TaskTable& table);

}  // namespace posenc::report
