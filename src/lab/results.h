// results.json of a run, from what an evaluation found (docs/runs.md).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/value.h"
#include "experiment/load.h"
#include "lab/evaluate.h"

namespace posenc::lab {

struct TrainFigures {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double seconds = 0.0;  // of training steps alone
  double data_seconds = 0.0;
  std::int64_t peak_memory_bytes = 0;
};

Value row_value(const EvalRow& row);
Value results_value(const experiment::Loaded& loaded, const tasks::Task& task,
                    const std::map<std::string, std::int64_t>& parameters,
                    const TrainFigures& figures, const std::vector<EvalRow>& rows);
// One row of a table for people: "longer  64 (2x)   91.4 %  [89.9, 92.8]  chance 21.3 %".
std::string row_text(const EvalRow& row, const std::string& metric);

}  // namespace posenc::lab
