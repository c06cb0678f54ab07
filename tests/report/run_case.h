// Run directories with figures that a test chooses.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "runs/run_directory.h"
#include "support/temporary_folder.h"

namespace posenc::testing {

struct CaseRow {
  std::string axis;
  int factor = 1;
  double value = 0.0;
  double low = 0.0;
  double high = 0.0;
  std::string more;  // further members, such as ", \"schedule\": \"yarn\""
};

struct CaseRun {
  std::string encoding = "rope";
  int seed = 0;
  std::string task = "selective_counting";
  std::string metric = "accuracy";
  int layers = 2;
  double tokens_per_s = 1000.0;
  int positions = 0;
  std::string cpu = "tiny";
  std::vector<CaseRow> rows = {};
};

inline std::string results_text(const CaseRun& run) {
  std::string rows;
  for (const CaseRow& row : run.rows) {
    rows += fmt::format(
        R"({}{{"axis": "{}", "length": {}, "factor": {}, "samples": 512, "scored": 512,
        "correct": 1, "value": {}, "low": {}, "high": {}, "chance": 0.125, "trained_share": 1.0{}}})",
        rows.empty() ? "" : ", ", row.axis, 32 * row.factor, row.factor, row.value, row.low,
        row.high, row.more);
  }
  return fmt::format(
      R"({{"task": "{}", "encoding": "{}", "config_hash": "0", "seed": {}, "train_length": 32,
      "metric": "{}", "step": 100, "threshold": 0.9, "tokens_per_s": {}, "train_seconds": 2.5,
      "peak_memory_bytes": 1000, "effective_length": {{}},
      "parameters": {{"total": {}, "positions": {}}}, "rows": [{}]}})",
      run.task, run.encoding, run.seed, run.metric, run.tokens_per_s, 5000 + run.positions,
      run.positions, rows);
}

inline std::string config_text(const CaseRun& run) {
  return fmt::format(
      "name: {}-{}\nseed: {}\ntask: {}\nmodel: {{encoding: [\"{}\"], layers: {}}}\n"
      "train: {{steps: 100, log_every: {}}}\n",
      run.encoding, run.seed, run.seed, run.task, run.encoding, run.layers, 10 + run.seed);
}

// The folder of a run in `state`, with results where there are rows.
inline void write_run(const std::string& path, const CaseRun& run,
                      runs::RunState state = runs::RunState::kFinished,
                      const std::string& message = "") {
  const Value environment =
      parse_json(fmt::format(R"({{"cpu": "{}", "threads": 1}})", run.cpu), "environment");
  const auto directory = runs::RunDirectory::create(
      path, {.config = config_text(run), .config_hash = "0", .environment = environment});
  if (!run.rows.empty()) directory.write_results(parse_json(results_text(run), "results"));
  directory.set_status({state, 100, message, "0"});
}

}  // namespace posenc::testing
