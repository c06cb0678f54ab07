// results.json of a run, read back (docs/runs.md describes the file).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/metric.h"
#include "core/value.h"
#include "runs/score_regions.h"
#include "statistics/estimates.h"

namespace posenc::report {

// One figure of a condition.
struct RegionResult {
  runs::PositionRange positions;  // that it is over
  statistics::Estimate estimate;  // in the metric; 95 % over rows or documents
  double chance = 0.0;            // on the same positions
  std::optional<double> right;    // share of single answers that are, whatever the metric counts
};

// One bucket of a curve by position. Buckets without a scored answer are left out.
struct PositionResult {
  runs::PositionRange positions;
  double value = 0.0;   // in the metric, of single answers
  double chance = 0.0;  // of single answers too
};

// Rows that hide what they ask for between two depths, 0 at the start of the row.
struct DepthResult {
  double from = 0.0;
  double to = 0.0;
  double accuracy = 0.0;  // of whole rows; NaN where no row is between them
};

// One condition of an evaluation.
struct ResultRow {
  std::string axis;
  std::int64_t length = 0;
  double factor = 0;             // times the training length
  bool beyond_training = false;  // longer rows, or rows drawn in another way
  std::string schedule;          // that the model was evaluated under, where it is not its own
  std::string skipped;           // why there is no figure
  std::array<RegionResult, runs::kRegions.size()> regions;
  std::optional<double> trained_share;  // of the answers that training had
  std::vector<PositionResult> by_position;
  std::vector<DepthResult> by_depth;
  std::optional<double> generated;  // the metric of answers generated from the model's own

  [[nodiscard]] const RegionResult& region(runs::Region region) const {
    return regions[static_cast<std::size_t>(region)];
  }
  [[nodiscard]] const statistics::Estimate& headline() const {
    return region(runs::Region::kHeadline).estimate;
  }
};

struct Results {
  std::string task;
  std::string encoding;
  std::string config_hash;
  std::string eval_hash;
  Value eval;  // the evaluation's fields, which config.yaml may have otherwise
  std::int64_t seed = 0;
  std::int64_t train_length = 0;
  Metric metric = Metric::kAccuracy;
  bool row_metric = false;  // a row counts as right only if all of its answers are
  std::int64_t step = 0;
  double threshold = 0.9;
  double tokens_per_s = 0.0;
  double train_seconds = 0.0;
  std::int64_t peak_memory_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> parameters;  // total, and per part
  std::vector<ResultRow> rows;

  [[nodiscard]] std::int64_t parameters_of(std::string_view part) const;  // 0 where it has none
};

// An Error signed `scope` names the field that is missing or of another type.
Results read_results(const Value& value, const std::string& scope);

}  // namespace posenc::report
