// Writes results.json of a run from an evaluation (docs/runs.md).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "core/value.h"
#include "train/evaluate.h"

namespace posenc::train {

struct TrainFigures {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double seconds = 0.0;  // of training steps alone
  double data_seconds = 0.0;
  std::int64_t peak_memory_bytes = 0;
  std::optional<std::int64_t> peak_gpu_bytes;  // of runs on a GPU
};

Value row_value(const EvalRow& row);
Value results_value(const config::Loaded& loaded, const tasks::Task& task,
                    const std::map<std::string, std::int64_t>& parameters,
                    const TrainFigures& figures, const std::vector<EvalRow>& rows);
// What scores.bin keeps of them.
runs::RunTallies tallies_of(const config::Loaded& loaded, std::vector<EvalRow> rows);
// One row of a table for people: "longer  64 (2x)  positions 32 to 63: accuracy 12.1 % [11.4, 12.9], ...".
std::string row_text(const EvalRow& row, Metric metric);

}  // namespace posenc::train
