// AdamW, Adam and SGD over one flat vector of all parameters, so that a step is a handful of operations
// however many tensors there are, and its state is a few vectors with stable names. Nothing here waits for
// the device. On a GPU, Adam and AdamW are libtorch's fused kernels, where it has them.
//
//   adamw   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//           w -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps) + lr decay w     (Loshchilov, Hutter 2019)
//   adam    the same with decay w added to g instead                             (Kingma, Ba 2015)
//   sgd     m = momentum m + g + decay w;  w -= lr m
//
// Matrices decay; vectors and the parameters of encodings do not. The latter have a rate of their own, encoding_lr lr.
#pragma once

#include <torch/nn.h>

#include <string>
#include <utility>
#include <vector>

#include "config/train_config.h"

namespace posenc::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class Optimizer {
 public:
  // Moves the parameters of the model into one buffer; the model sees views of it.
  Optimizer(const config::TrainConfig& config, torch::nn::Module& model);

  // The rate of a step; fused kernels read it on the device, as float64 without dimensions.
  struct Rate {
    double value = 0.0;
    at::Tensor on_device = {};
  };

  void zero_grad();
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
  [[nodiscard]] bool recordable() const { return !groups_.empty(); }

  // Steps done and moments, for checkpoints; load() takes what state() gave.
  [[nodiscard]] NamedTensors state() const;
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
  void add_to_group(std::int64_t offset, std::int64_t numbers, double decay, double rate);
  void fused_adam_step(const Rate& rate);
  void adam_step(double lr);
  void sgd_step(double lr);

  config::TrainConfig config_;
  std::int64_t steps_ = 0;
  at::Tensor weights_, gradient_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> places_;  // of their gradients, in gradient_
  at::Tensor decay_;                // per number
  at::Tensor rate_;                 // per number, times the rate; not there where all are 1
  at::Tensor mean_, square_;
  std::vector<Group> groups_;
  at::Tensor step_;  // steps done, on the device, for fused kernels
};

}  // namespace posenc::train
