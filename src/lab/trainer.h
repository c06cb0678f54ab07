// One model in training: a step at a time, everything it draws a function of (seed, step), so that a run
// taken up from a checkpoint goes on as if nothing had happened.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/value.h"
#include "experiment/load.h"
#include "lab/optimizer.h"
#include "lab/samples.h"
#include "model/transformer.h"
#include "runs/checkpoints.h"

namespace posenc::lab {

struct StepReport {
  double loss = 0.0;  // mean over scored places
  std::int64_t scored = 0;
  std::int64_t correct = 0;
  std::int64_t tokens = 0;
  double gradient_norm = 0.0;
  double rate = 0.0;
  double seconds = 0.0;
  double data_seconds = 0.0;
};

class Trainer {
 public:
  Trainer(const experiment::LabConfig& config, const tasks::Task& task,
          const model::AttentionFactory& factory = {});

  // Throws Interrupted (core/cancellation.h) once `stop` is raised; the step is as if it had not begun.
  StepReport step(const std::atomic<bool>* stop = nullptr);
  [[nodiscard]] std::int64_t steps() const { return optimizer_->steps(); }

  // Norms of the encodings' own parameters and of their last gradients, by name.
  [[nodiscard]] std::vector<std::pair<std::string, double>> positional_norms() const;
  [[nodiscard]] std::vector<std::pair<std::string, double>> positional_gradient_norms() const;

  void save(runs::Checkpoints& checkpoints, const Value& state, std::optional<double> score) const;
  void load(const runs::Loaded& checkpoint);
  // Weights alone, to evaluate.
  static void load_weights(model::Transformer& model, const runs::Loaded& checkpoint);

  [[nodiscard]] model::Transformer& model() { return model_; }
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  void accumulate(const tasks::Batch& batch, const at::Tensor& positions, StepReport& report);

  experiment::LabConfig config_;
  const tasks::Task& task_;
  at::Device device_;
  model::Transformer model_{nullptr};
  std::unique_ptr<Optimizer> optimizer_;
};

model::ModelContext model_context(const experiment::LabConfig& config, const tasks::Task& task);
at::Device device_of(const experiment::TrainConfig& train);

}  // namespace posenc::lab
