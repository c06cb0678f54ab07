// Accuracy, error or bits per byte of a model under the conditions of a task.
//
// A condition has three figures, over different positions of the same rows (runs/score_regions.h): the headline
// over the positions beyond the trained length, one over the last eighth of the row, and one over all of it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/train_config.h"
#include "model/transformer.h"
#include "parallel/ranks.h"
#include "runs/scores.h"
#include "statistics/estimates.h"
#include "tasks/task.h"

namespace posenc::train {

struct Tally {
  std::int64_t scored = 0;
  std::int64_t correct = 0;
  double loss = 0.0;  // sum of negative log-likelihoods
};

struct PositionBucket {
  runs::PositionRange positions;
  Tally tally;
  double chance = 0.0;  // on these positions
};

// What a row hides at a depth from 0, its start, to 1, its end.
struct DepthBucket {
  double from = 0.0;
  double to = 0.0;
  Tally rows;  // whole rows
};

// One figure of a condition.
struct RegionScore {
  runs::PositionRange positions;
  Tally tally;
  statistics::Estimate estimate;  // in the task's metric, with its interval over rows or documents
  double chance = 0.0;            // on the same positions
};

// Answers of several tokens, generated from the model's own (free_running.h).
struct FreeRunning {
  std::int64_t samples = 0;
  statistics::Estimate tokens;  // share of answers that are right
  statistics::Estimate rows;    // share of rows whose answers all are
};

struct EvalRow {
  std::string axis;
  std::int64_t length = 0;
  double factor = 1.0;  // of the training length
  std::int64_t samples = 0;
  bool beyond_training = false;  // longer rows, or rows drawn in another way
  std::array<RegionScore, runs::kRegions.size()> regions;
  double trained_share = 1.0;
  std::map<std::string, Tally> by_answer;  // empty for corpora
  std::vector<PositionBucket> by_position;
  std::vector<DepthBucket> by_depth;  // of tasks that hide something
  std::optional<FreeRunning> free_running;
  runs::ConditionTallies tallies;  // by row, for paired comparisons
  std::string schedule;            // that the model was evaluated under, where it is not its own
  std::string skipped;             // why there is no figure

  [[nodiscard]] const RegionScore& region(runs::Region region) const {
    return regions[static_cast<std::size_t>(region)];
  }
  [[nodiscard]] const statistics::Estimate& headline() const {
    return region(runs::Region::kHeadline).estimate;
  }
};

struct EvalSetting {
  config::EvalConfig config;
  std::int64_t train_length = 0;
  std::int64_t longest = -1;  // positions that the model has; -1: any
  tasks::Split split = tasks::Split::kTest;
  // positions: subset draws random positions at test as well (Ruoss et al. 2023); the others count from 0.
  config::TrainConfig train;
  at::Device device = at::kCPU;
  const std::atomic<bool>* stop = nullptr;
  // Processes that share the rows: all of them call with the same settings, and get the same results.
  parallel::Ranks* ranks = nullptr;
  std::function<void(std::int64_t done, std::int64_t all)> progress;  // in samples
};

// In any of the processes, where there are several: they call it at the same time.
inline bool stopped(const EvalSetting& setting) {
  const bool here = setting.stop != nullptr && setting.stop->load(std::memory_order_relaxed);
  return setting.ranks == nullptr ? here : setting.ranks->any(here);
}

// A model that evaluates while this lives.
class EvalMode {
 public:
  explicit EvalMode(model::Transformer& model)
      : model_(model), was_training_(model->is_training()) {
    model_->eval();
  }
  ~EvalMode() { model_->train(was_training_); }
  EvalMode(EvalMode&&) = delete;
  EvalMode& operator=(EvalMode&&) = delete;

 private:
  model::Transformer& model_;
  bool was_training_;
};

inline double factor_of(std::int64_t length, const EvalSetting& setting) {
  return static_cast<double>(length) / static_cast<double>(setting.train_length);
}

// An axis and a length that samples are drawn for.
using EvalCase = config::EvalCondition;

tasks::Condition condition_of(const EvalCase& c, const EvalSetting& setting);

// Nothing where `stop` was raised on the way.
std::optional<EvalRow> evaluate_row(model::Transformer& model, const tasks::Task& task,
                                    const EvalCase& c, const EvalSetting& setting);

// In domain first, then the config's conditions, or every axis at its lengths; an Error for an axis that the
// task does not have.
std::vector<EvalCase> eval_cases(const tasks::Task& task, const EvalSetting& setting);
// Those that training evaluates on the way: in domain, then train.eval_conditions.
std::vector<EvalCase> cases_on_the_way(const tasks::Task& task, const EvalSetting& setting);

// The headline figure so that more is better, whatever the metric.
double score_of(const EvalRow& row, Metric metric);

}  // namespace posenc::train
