// One model in training. Everything it draws is a function of (seed, step), so that a run resumed from a
// checkpoint gives the same bits. Several steps can be queued on a GPU without waiting for their figures.
#pragma once

#include <c10/core/Stream.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "core/value.h"
#include "model/transformer.h"
#include "runs/checkpoints.h"
#include "train/optimizer.h"
#include "train/prefetch.h"
#include "train/step_work.h"

namespace posenc::train {

struct StepReport {
  double loss = 0.0;  // mean over scored places
  std::int64_t scored = 0;
  std::int64_t correct = 0;
  std::int64_t tokens = 0;
  double gradient_norm = 0.0;
  double rate = 0.0;
  double seconds = 0.0;
  double data_seconds = 0.0;  // of them, waiting for samples
  bool stops = false;         // a process of the training has been asked to stop
};

// How far ahead of the device a training works; results do not depend on it.
struct Pace {
  std::int64_t steps = 1;    // queued before their figures are read, at the most
  std::size_t prefetch = 0;  // batches prepared on a separate thread
  Graphs graphs = Graphs::kNever;

  // A CPU computes a step while it is queued, and needs its cores for that. Several processes agree after each step on
  // whether to go on.
  static Pace of(at::Device device, bool several_processes = false);
};

class Trainer {
 public:
  Trainer(const config::LabConfig& config, const tasks::Task& task,
          const model::AttentionFactory& factory = {}, std::optional<Pace> pace = {},
          parallel::Ranks* ranks = nullptr);
  Trainer(Trainer&&) = delete;  // its parts refer to it
  Trainer& operator=(Trainer&&) = delete;

  // Up to `count` steps, queued one after another; their figures are read together at the end. Ends early once
  // `stop` is raised, and throws Interrupted (core/cancellation.h) if that was in the first step. A step that is
  // cut off is as if it had not begun. With several processes no step is cut off: reports say when all of them stop.
  std::vector<StepReport> run(std::int64_t count, const std::atomic<bool>* stop = nullptr);
  StepReport step(const std::atomic<bool>* stop = nullptr) { return run(1, stop).front(); }
  [[nodiscard]] std::int64_t steps() const { return optimizer_->steps(); }
  [[nodiscard]] const Pace& pace() const { return pace_; }
  // Whether a GPU replays steps from graphs.
  [[nodiscard]] bool replays() const { return work_->replays(); }

  // Norms of the encodings' own parameters and of their last gradients, by name.
  [[nodiscard]] std::vector<std::pair<std::string, double>> positional_norms() const;
  [[nodiscard]] std::vector<std::pair<std::string, double>> positional_gradient_norms() const;

  // With several processes all of them call these; rank 0 has the files, the others give none.
  void save(runs::Checkpoints* checkpoints, const Value& state, std::optional<double> score) const;
  void load(const runs::Loaded* checkpoint);
  // The same weights in all processes: those of rank 0.
  void share_weights();
  // Weights alone, to evaluate.
  static void load_weights(model::Transformer& model, const runs::Loaded& checkpoint);
  static void copy_weights(model::Transformer& model, const model::Transformer& from);

  [[nodiscard]] model::Transformer& model() { return model_; }
  [[nodiscard]] at::Device device() const { return device_; }

 private:
  // A step on its way: what the device knows of it stays there until it is read.
  struct Queued {
    StepReport report;
    at::Tensor figures;  // as StepWork::queue() gives them
  };
  Queued queue_step(const std::atomic<bool>* stop);
  [[nodiscard]] StepSamples next_samples();

  config::LabConfig config_;
  const tasks::Task& task_;
  at::Device device_;
  parallel::Ranks* ranks_;
  Pace pace_;
  model::Transformer model_{nullptr};
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepWork> work_;
  std::optional<c10::Stream> stream_;  // of its own, on a GPU
  std::unique_ptr<Prefetch> samples_;
};

// The part of each step that this process computes; nothing where it computes all of it in one piece.
std::optional<Pieces> pieces_of(const config::TrainConfig& train, const parallel::Ranks* ranks);

model::ModelContext model_context(const config::LabConfig& config, const tasks::Task& task);
at::Device device_of(const config::TrainConfig& train);

}  // namespace posenc::train
