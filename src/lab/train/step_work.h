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
#include "train/optimizer.h"
#include "train/samples.h"

namespace posenc::train {

enum class Graphs { kNever, kWherePossible };

class StepWork {
 public:
  StepWork(const config::LabConfig& config, model::Transformer model, Optimizer& optimizer,
           at::Device device, Graphs graphs);

  // Queues the step on the current stream and counts it. Returns float64 [3] on the device: loss, right answers,
  // length of the gradient.
  at::Tensor queue(const StepSamples& samples);
  // Whether steps are replayed, as far as is known.
  [[nodiscard]] bool replays() const { return graphs_; }

 private:
  using Shape = std::vector<std::int64_t>;
  struct Recorded {
    at::Tensor samples, figures;
    std::unique_ptr<ops::DeviceGraph> graph;
  };
  [[nodiscard]] at::Tensor work(const StepSamples& here);
  void add_part(const StepSamples& here, const Samples& part, at::Tensor& loss,
                at::Tensor& correct);
  [[nodiscard]] Recorded& recorded_for(const StepSamples& samples);
  bool record(Recorded& recorded, const StepSamples& here);

  const config::LabConfig& config_;
  model::Transformer model_;
  Optimizer& optimizer_;
  at::Device device_;
  bool graphs_;
  nn::WeightCopies copies_;
  std::int64_t length_ = 0;  // of the recorded steps
  std::map<Shape, Recorded> recorded_;
};

}  // namespace posenc::train
