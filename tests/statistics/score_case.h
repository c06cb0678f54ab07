// Made-up scores of runs, for tests of comparisons.
#pragma once

#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "statistics/paired.h"

namespace posenc::testing {

inline constexpr double kFailed = std::numeric_limits<double>::quiet_NaN();

// A run per value, each row of which has that value; kFailed is a run that diverged.
inline statistics::EncodingScores encoding(std::string name, const std::vector<double>& values,
                                           std::size_t rows = 1000) {
  statistics::EncodingScores scores{std::move(name), {}};
  for (const double value : values) {
    statistics::RunScores run{.seed = static_cast<std::int64_t>(scores.runs.size()), .rows = {}};
    run.failed = !(value == value);
    if (!run.failed) run.rows.assign(rows, {value, 1.0});
    scores.runs.push_back(std::move(run));
  }
  return scores;
}

inline statistics::ConditionScores condition(std::string place, Metric metric,
                                             std::vector<statistics::EncodingScores> encodings) {
  return {std::move(place), metric, {}, std::move(encodings)};
}

// The sum of an effect of the run and one of the row, at every row.
inline statistics::EncodingScores additive(std::string name, const std::vector<double>& of_runs,
                                           const std::vector<double>& of_rows) {
  statistics::EncodingScores scores{std::move(name), {}};
  for (const double run_effect : of_runs) {
    statistics::RunScores run;
    for (const double row_effect : of_rows) run.rows.push_back({run_effect + row_effect, 1.0});
    scores.runs.push_back(std::move(run));
  }
  return scores;
}

}  // namespace posenc::testing
