// The work of one training step: the gradients of its parts, their length cut, the update. On a GPU a step whose
// shape was seen before is replayed from a graph (torch/device_graph.h); the bits are those of a step that is not.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "config/load.h"
#include "model/transformer.h"
#include "torch/dense.h"
#include "torch/device_graph.h"
#include "train/gradient_buckets.h"
#include "train/optimizer.h"
#include "train/samples.h"

namespace posenc::train {

enum class Graphs { kNever, kWherePossible };

// What the device finds out about a step, as float64 [kFigures].
enum Figure { kLoss, kCorrect, kScored, kStops, kNorm, kFigures };

class StepWork {
 public:
  StepWork(const config::LabConfig& config, model::Transformer model, Optimizer& optimizer,
           at::Device device, Graphs graphs, parallel::Ranks* ranks = nullptr);

  // Queues the step on the current stream and counts it. The figures are those of all processes; kStops is how many of
  // them are to stop.
  at::Tensor queue(const StepSamples& samples, bool stops = false);
  // Whether steps are replayed, as far as is known.
  [[nodiscard]] bool replays() const { return graphs_; }

 private:
  using Shape = std::vector<std::int64_t>;
  struct Recorded {
    at::Tensor samples, figures;
    std::unique_ptr<ops::DeviceGraph> graph;
  };
  // All that a step draws is a function of the seed and its number: each piece of it starts from here.
  void restart_draws(std::int64_t step);
  [[nodiscard]] at::Tensor work(const StepSamples& here);
  // The same where the step's gradient is a sum over pieces or processes.
  [[nodiscard]] at::Tensor shared_work(const StepSamples& here, bool stops);
  [[nodiscard]] at::Tensor add_in_order(const StepSamples& here, at::Tensor figures);
  [[nodiscard]] at::Tensor add_overlapping(const StepSamples& here, at::Tensor figures);
  void add_parts(const StepSamples& here, std::int64_t piece, const at::Tensor& figures);
  void add_part(const StepSamples& here, std::size_t number, at::Tensor& loss, at::Tensor& correct);
  [[nodiscard]] Recorded& recorded_for(const StepSamples& samples);
  bool record(Recorded& recorded, const StepSamples& here);

  const config::LabConfig& config_;
  model::Transformer model_;
  Optimizer& optimizer_;
  at::Device device_;
  parallel::Ranks* ranks_;
  std::unique_ptr<GradientBuckets> buckets_;
  bool graphs_;
  nn::WeightCopies copies_;
  std::int64_t length_ = 0;  // of the recorded steps
  std::map<Shape, Recorded> recorded_;
};

}  // namespace posenc::train
