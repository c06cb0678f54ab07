// Accuracy, error or bits per byte of a model under the conditions of a task.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiment/train_config.h"
#include "model/transformer.h"
#include "runs/statistics.h"
#include "tasks/task.h"

namespace posenc::lab {

struct Tally {
  std::int64_t scored = 0;
  std::int64_t correct = 0;
  double loss = 0.0;  // sum of negative log-likelihoods
};

struct PositionBucket {
  std::int64_t from = 0;
  std::int64_t to = 0;  // included
  Tally tally;
};

struct EvalRow {
  std::string axis;
  std::int64_t length = 0;
  double factor = 1.0;  // of the training length
  std::int64_t samples = 0;
  Tally all;
  runs::Estimate estimate;  // in the task's metric
  double chance = 0.0;
  double trained_share = 1.0;
  std::map<std::string, Tally> by_answer;  // empty for corpora
  std::vector<PositionBucket> by_position;
  std::string schedule;  // that the model was evaluated under, where it is not its own
  std::string skipped;   // why there is no figure
};

struct EvalSetting {
  experiment::EvalConfig config;
  std::int64_t train_length = 0;
  std::int64_t longest = -1;  // positions that the model has; -1: any
  at::Device device = at::kCPU;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::int64_t done, std::int64_t all)> progress;  // in samples
};

inline double factor_of(std::int64_t length, const EvalSetting& setting) {
  return static_cast<double>(length) / static_cast<double>(setting.train_length);
}

// Nothing where `stop` was raised on the way.
std::optional<EvalRow> evaluate_row(model::Transformer& model, const tasks::Task& task,
                                    const std::string& axis, std::int64_t length,
                                    const EvalSetting& setting);

// An axis and a length that samples are drawn for.
struct EvalCase {
  std::string axis;
  std::int64_t length = 0;
};

// Every axis and length that the config names; an Error for an axis that the task has not.
std::vector<EvalCase> eval_cases(const tasks::Task& task, const EvalSetting& setting);
// All of them, in order.
std::optional<std::vector<EvalRow>> evaluate_all(model::Transformer& model, const tasks::Task& task,
                                                 const EvalSetting& setting);

// So that more is better, whatever the metric.
double score_of(const EvalRow& row, const std::string& metric);

}  // namespace posenc::lab
