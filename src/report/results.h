// results.json of a run, read back (docs/runs.md describes the file).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/value.h"
#include "runs/statistics.h"

namespace posenc::report {

// One condition of an evaluation.
struct ResultRow {
  std::string axis;
  std::int64_t length = 0;
  double factor = 0;        // times the training length
  std::string schedule;     // that the model was evaluated under, where it is not its own
  std::string skipped;      // why there is no figure
  runs::Estimate estimate;  // in the metric; 95 % over samples
  double chance = 0.0;
  std::optional<double> trained_share;  // of the answers that training had
};

struct Results {
  std::string task;
  std::string encoding;
  std::string config_hash;
  std::int64_t seed = 0;
  std::int64_t train_length = 0;
  std::string metric;  // accuracy, error or bits_per_byte
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
