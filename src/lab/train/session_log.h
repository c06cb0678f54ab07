// Logs of a training: rows of metrics.jsonl, and events for TensorBoard.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runs/events.h"
#include "runs/metrics.h"
#include "runs/run_directory.h"
#include "train/evaluate.h"

namespace posenc::train {

using NamedNorms = std::vector<std::pair<std::string, double>>;

// Of the steps since the last row.
struct TrainRow {
  std::int64_t step = 0;
  double loss = 0.0;
  double accuracy = 0.0;
  double rate = 0.0;
  double gradient_norm = 0.0;  // of the last step
  std::int64_t tokens = 0;     // since the first step
  double seconds = 0.0;        // likewise
  double tokens_per_s = 0.0;
  NamedNorms norms, gradient_norms;  // of the encodings' parameters
};

class SessionLog {
 public:
  // `resumed_at`: the step of the checkpoint; rows after it are dropped.
  explicit SessionLog(const runs::RunDirectory& directory,
                      std::optional<std::int64_t> resumed_at = std::nullopt);

  void add(const TrainRow& row);
  void add(const EvalRow& row, Metric metric, std::int64_t step, bool in_domain);
  // The end of an evaluation: results by condition, and the config as hyperparameters, for TensorBoard alone.
  void add_results(const Value& config, const Value& results);
  void flush();

 private:
  runs::MetricsWriter metrics_;
  std::optional<runs::EventWriter> events_;
};

}  // namespace posenc::train
