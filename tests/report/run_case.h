// Run directories with figures that a test chooses.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "core/metric.h"
#include "runs/run_directory.h"
#include "runs/scores.h"
#include "support/temporary_folder.h"

namespace posenc::testing {

inline constexpr int kTrainedLength = 32;

struct CaseRow {
  std::string axis;
  int factor = 1;
  double value = 0.0;  // of the headline
  double low = 0.0;
  double high = 0.0;
  std::string more = {};                   // further members, such as ", \"skipped\": \"...\""
  std::optional<double> last_eighth = {};  // else that of the headline
  std::optional<double> all = {};
  bool shifted = false;  // rows drawn in another way: beyond training at any length
  std::string schedule = {};
};

struct CaseRun {
  std::string encoding = "rope";
  int seed = 0;
  std::string task = "selective_counting";
  Metric metric = Metric::kAccuracy;
  int layers = 2;
  std::string model = {};  // further fields, such as ", attention: linear"
  double tokens_per_s = 1000.0;
  int positions = 0;
  std::string cpu = "tiny";
  std::vector<CaseRow> rows = {};
  int samples = 40;    // of the evaluation
  bool scores = true;  // write scores.bin
  bool row_metric = false;
  std::string environment = {};  // further members, such as ", \"device\": \"cuda\""
};

inline std::string eval_hash_of(const CaseRun& run) { return fmt::format("eval{}", run.samples); }

inline std::string region_text(double value, double low, double high, int from, int to) {
  return fmt::format(
      R"("from": {}, "to": {}, "scored": 400, "correct": 1, "value": {}, "low": {}, "high": {},
      "chance": {})",
      from, to, value, low, high, from > 0 ? 0.125 : 0.25);
}

inline std::string row_text(const CaseRow& row) {
  const int length = kTrainedLength * row.factor;
  const int from = row.factor > 1 ? kTrainedLength : 0;
  const auto part = [&](const char* name, double value, int begin) {
    return fmt::format(R"("{}": {{{}}})", name,
                       region_text(value, value, value, begin, length - 1));
  };
  return fmt::format(
      R"({{"axis": "{}", "length": {}, "factor": {}, "samples": 40, "beyond_training": {}, {},
      {}, {}, "trained_share": 1.0{}}})",
      row.axis, length, row.factor, row.factor > 1 || row.shifted,
      region_text(row.value, row.low, row.high, from, length - 1),
      part("last_eighth", row.last_eighth.value_or(row.value), length - length / 8),
      part("all", row.all.value_or(row.value), 0),
      row.more + (row.schedule.empty() ? "" : fmt::format(R"(, "schedule": "{}")", row.schedule)));
}

inline std::string results_text(const CaseRun& run) {
  std::string rows;
  for (const CaseRow& row : run.rows) rows += (rows.empty() ? "" : ", ") + row_text(row);
  return fmt::format(
      R"({{"task": "{}", "encoding": "{}", "config_hash": "0", "eval_hash": "{}",
      "eval": {{"factors": [1, 2], "samples": {}, "threshold": 0.{}}}, "seed": {},
      "train_length": {}, "metric": "{}", "row_metric": {}, "step": 100, "threshold": 0.9,
      "tokens_per_s": {}, "train_seconds": 2.5, "peak_memory_bytes": 1000, "effective_length": {{}},
      "parameters": {{"total": {}, "positions": {}}}, "rows": [{}]}})",
      run.task, run.encoding, eval_hash_of(run), run.samples, 5 + run.seed % 5, run.seed,
      kTrainedLength, name_of(run.metric), run.row_metric, run.tokens_per_s, 5000 + run.positions,
      run.positions, rows);
}

// What config.yaml says of the evaluation is not what results.json is of.
inline std::string config_text(const CaseRun& run) {
  return fmt::format(
      "name: {}-{}\nseed: {}\ntask: {}\nmodel: {{encoding: [\"{}\"], layers: {}{}}}\n"
      "train: {{steps: 100, log_every: {}}}\neval: {{samples: {}}}\n",
      run.encoding, run.seed, run.seed, run.task, run.encoding, run.layers, run.model,
      10 + run.seed, 7 + run.seed);
}

// 40 rows of 10 answers whose figure is the value of the row: some rows have one right answer more.
inline std::vector<runs::Tally> tallies_of(double value, Metric metric) {
  constexpr int kRows = 40;
  constexpr int kAnswers = 10;
  const double share = metric == Metric::kError ? 1.0 - value : value;
  std::vector<runs::Tally> rows;
  int before = 0;
  for (int i = 1; i <= kRows; ++i) {
    const auto until = static_cast<int>(std::lround(share * kAnswers * i));
    const bool bits = metric == Metric::kBitsPerByte;
    rows.push_back({.correct = bits ? 0U : static_cast<std::uint32_t>(until - before),
                    .weight = kAnswers,
                    .loss = bits ? static_cast<float>(value * std::numbers::ln2 *
                                                      (kAnswers + (i % 2 == 0 ? 1 : -1)))
                                 : 1.0F});
    before = until;
  }
  return rows;
}

inline runs::RunTallies scores_of(const CaseRun& run) {
  runs::RunTallies scores{.evaluation_hash = eval_hash_of(run), .conditions = {}};
  for (const CaseRow& row : run.rows) {
    if (row.more.find("skipped") != std::string::npos) continue;
    runs::ConditionTallies condition{
        .name = runs::condition_name(row.axis, kTrainedLength * row.factor, row.schedule)};
    condition.regions = {tallies_of(row.value, run.metric),
                         tallies_of(row.last_eighth.value_or(row.value), run.metric),
                         tallies_of(row.all.value_or(row.value), run.metric)};
    scores.conditions.push_back(std::move(condition));
  }
  return scores;
}

// The folder of a run in `state`, with results and scores where there are rows.
inline void write_run(const std::string& path, const CaseRun& run,
                      runs::RunState state = runs::RunState::kFinished,
                      const std::string& message = "") {
  const Value environment = parse_json(
      fmt::format(R"({{"cpu": "{}", "threads": 1{}}})", run.cpu, run.environment), "environment");
  const auto directory = runs::RunDirectory::create(
      path, {.config = config_text(run), .config_hash = "0", .environment = environment});
  if (!run.rows.empty()) {
    directory.write_results(parse_json(results_text(run), "results"));
    if (run.scores) runs::write_scores(runs::scores_path(path), scores_of(run));
  }
  directory.set_status({state, 100, message, "0"});
}

}  // namespace posenc::testing
