// AdamW, Adam and SGD over one flat vector of all parameters, so that a step is a handful of operations
// however many tensors there are, and its state is a few vectors with stable names. Nothing here waits for
// the device. On a GPU, Adam and AdamW are libtorch's fused kernels, where it has them.
//
//   adamw   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//           w -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + lr decay w     (Loshchilov, Hutter 2019)
//   adam    the same with decay w added to g instead                             (Kingma, Ba 2015)
//   sgd     m = momentum m + g + decay w;  w -= lr m
//
// With train.shard_optimizer and several processes, each one keeps the moments of its part of the vector and updates that
// part; the weights are then gathered (ZeRO-1; Rajbhandari et al. 2020). The bits are those of the whole vector, and so are
// checkpoints.
//
// Matrices decay; vectors and the parameters of encodings do not. The latter have the rate encoding_lr lr.
#pragma once

#include <torch/nn.h>

#include <string>
#include <utility>
#include <vector>

#include "config/train_config.h"
#include "parallel/ranks.h"

namespace posenc::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Where a parameter's numbers lie in the vector.
struct ParameterPlace {
  at::Tensor parameter;
  std::string name;
  std::int64_t offset = 0;
};

class Optimizer {
 public:
  // Moves the parameters of the model into one buffer; the model sees views of it.
  Optimizer(const config::TrainConfig& config, torch::nn::Module& model,
            parallel::Ranks* ranks = nullptr);

  // The rate of a step; fused kernels read it on the device, as float64 without dimensions.
  struct Rate {
    double value = 0.0;
    at::Tensor on_device = {};
  };

  void zero_grad();
  // The gradient of all parameters. With several processes a backward pass adds to it in place.
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  [[nodiscard]] std::vector<ParameterPlace> places() const;
  // Scales the gradient to the longest allowed; returns its length before that, as float64 on the device.
  at::Tensor clip();
  // One step. update() alone queues its work and does not count it, so that a recorded one can be counted each
  // time it is replayed.
  void step(double rate) {
    update({.value = rate});
    count_step();
  }
  void update(const Rate& rate);
  void count_step() { ++steps_; }
  // Whether update() is the same work at every step, whatever the step and the rate.
  [[nodiscard]] bool recordable() const { return hands_over_; }

  // Steps done and moments, for checkpoints; load() takes what state() gave. Of the whole vector: processes that hold parts
  // of it call both at the same time.
  [[nodiscard]] NamedTensors state() const;
  // Its tensors in the CPU's memory, to be filled in.
  [[nodiscard]] NamedTensors empty_state() const;
  void load(const NamedTensors& state, std::int64_t steps);
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  // Parameters with the same decay and rate, as libtorch's fused kernels take them.
  struct Group {
    std::vector<at::Tensor> weights, gradients, means, squares, steps;
    double decay = 0.0;
    double rate = 1.0;
  };
  // Into the vector that the fused kernels read, if gradients are elsewhere.
  void gather_gradients();
  [[nodiscard]] bool sharded() const { return ranks_ != nullptr && config_.shard_optimizer; }
  void choose_part(std::int64_t total);
  // Numbers begin .. end - 1 of a vector over all parameters.
  [[nodiscard]] at::Tensor part(const at::Tensor& whole) const;
  [[nodiscard]] at::Tensor whole(const at::Tensor& part) const;
  void gather_weights();
  void add_to_group(std::int64_t offset, std::int64_t numbers, double decay, double rate);
  void fused_adam_step(const Rate& rate);
  void adam_step(double lr);
  void sgd_step(double lr);

  config::TrainConfig config_;
  parallel::Ranks* ranks_;
  std::int64_t steps_ = 0;
  std::int64_t part_begin_ = 0, part_end_ = 0;  // of the vector: what this process updates
  std::int64_t part_size_ = 0;                  // the same for all processes; the last may use less
  at::Tensor padded_weights_;                   // room for a part of every process
  at::Tensor weights_, gradient_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> places_;  // of their gradients, in gradient_
  at::Tensor decay_;                // per number
  at::Tensor rate_;                 // per number, times the rate; not there where all are 1
  at::Tensor mean_, square_;        // of the part
  bool fused_ = false;              // libtorch's kernels over groups of parameters
  bool hands_over_ =
      false;  // a backward pass leaves gradients where they are, and the vector is gathered from them
  std::vector<Group> groups_;
  at::Tensor step_;  // steps done, on the device, for fused kernels
};

}  // namespace posenc::train
