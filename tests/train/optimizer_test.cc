#include "train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/optim.h>

namespace posenc::train {
namespace {

using config::OptimizerKind;
using config::TrainConfig;

struct PairImpl : torch::nn::Module {
  PairImpl() {
    matrix = register_parameter("matrix", at::linspace(-1, 1, 12).reshape({3, 4}));
    vector = register_parameter("vector", at::linspace(0, 2, 5));
  }
  at::Tensor matrix, vector;
};

at::Tensor loss_of(PairImpl& m, int step) {
  const double t = 1.0 + 0.3 * step;
  return (m.matrix * t).sin().sum() + (m.vector * m.vector * t).sum() * 0.1;
}

TrainConfig config_of(OptimizerKind kind) {
  TrainConfig config;
  config.optimizer = kind;
  config.weight_decay = 0.1;
  config.momentum = kind == OptimizerKind::kSgd ? 0.8 : 0.0;
  config.clip = 0.0;
  return config;
}

// libtorch's own optimiser with a group per kind of parameter: matrices decay, vectors do not.
template <class Optimizer, class Options>
void expect_like_libtorch(OptimizerKind kind, const Options& options) {
  PairImpl ours;
  PairImpl theirs;
  train::Optimizer mine(config_of(kind), ours);
  Options without = options;
  without.weight_decay(0.0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<at::Tensor>{theirs.matrix}, std::make_unique<Options>(options));
  groups.emplace_back(std::vector<at::Tensor>{theirs.vector}, std::make_unique<Options>(without));
  Optimizer reference(groups, options);
  for (int step = 0; step < 20; ++step) {
    mine.zero_grad();
    loss_of(ours, step).backward();
    mine.step(0.05);
    reference.zero_grad();
    loss_of(theirs, step).backward();
    reference.step();
  }
  EXPECT_TRUE(ours.matrix.allclose(theirs.matrix, 1e-5, 1e-6)) << ours.matrix << theirs.matrix;
  EXPECT_TRUE(ours.vector.allclose(theirs.vector, 1e-5, 1e-6));
}

TEST(LabOptimizer, AdamWIsLibtorchs) {
  expect_like_libtorch<torch::optim::AdamW>(
      OptimizerKind::kAdamW,
      torch::optim::AdamWOptions(0.05).betas({0.9, 0.98}).eps(1e-8).weight_decay(0.1));
}
TEST(LabOptimizer, AdamIsLibtorchs) {
  expect_like_libtorch<torch::optim::Adam>(
      OptimizerKind::kAdam,
      torch::optim::AdamOptions(0.05).betas({0.9, 0.98}).eps(1e-8).weight_decay(0.1));
}
TEST(LabOptimizer, SgdIsLibtorchs) {
  expect_like_libtorch<torch::optim::SGD>(
      OptimizerKind::kSgd, torch::optim::SGDOptions(0.05).momentum(0.8).weight_decay(0.1));
}

TEST(LabOptimizer, ClipsToTheLongestAllowed) {
  PairImpl m;
  TrainConfig config = config_of(OptimizerKind::kSgd);
  config.clip = 0.5;
  train::Optimizer optimizer(config, m);
  (m.matrix.sum() * 2.0).backward();
  EXPECT_NEAR(optimizer.clip().item<double>(), 2.0 * std::sqrt(12.0), 1e-5);
  EXPECT_NEAR(m.matrix.grad().norm().item<double>(), 0.5, 1e-6);
}

TEST(LabOptimizer, GoesOnFromItsState) {
  PairImpl whole;
  train::Optimizer all(config_of(OptimizerKind::kAdamW), whole);
  PairImpl part;
  auto first = std::make_unique<train::Optimizer>(config_of(OptimizerKind::kAdamW), part);
  const auto take = [](train::Optimizer& optimizer, PairImpl& m, int step) {
    optimizer.zero_grad();
    loss_of(m, step).backward();
    optimizer.step(0.05);
  };
  for (int step = 0; step < 6; ++step) take(all, whole, step);
  for (int step = 0; step < 3; ++step) take(*first, part, step);
  NamedTensors saved;
  for (const auto& [name, tensor] : first->state()) saved.emplace_back(name, tensor.clone());
  train::Optimizer second(config_of(OptimizerKind::kAdamW), part);
  second.load(saved, 3);
  for (int step = 3; step < 6; ++step) take(second, part, step);
  EXPECT_TRUE(whole.matrix.equal(part.matrix));
  EXPECT_TRUE(whole.vector.equal(part.vector));
}

struct EncodedImpl : torch::nn::Module {
  EncodedImpl() {
    plain = register_parameter("plain", at::ones({3}));
    auto layer = register_module("layer", std::make_shared<torch::nn::Module>());
    auto pos = layer->register_module("pos", std::make_shared<torch::nn::Module>());
    slope = pos->register_parameter("slope", at::ones({3}));
  }
  at::Tensor plain, slope;
};

TEST(LabOptimizer, EncodingsHaveARateOfTheirOwn) {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    TrainConfig config = config_of(kind);
    config.encoding_lr = 3.0;
    EncodedImpl model;
    Optimizer optimizer(config, model);
    optimizer.zero_grad();
    (model.plain.sum() + model.slope.sum()).backward();
    optimizer.step(0.01);
    const at::Tensor moved = 1.0 - model.plain;
    EXPECT_GT(moved[0].item<double>(), 0.0);
    EXPECT_TRUE((1.0 - model.slope).allclose(3.0 * moved, 1e-3, 1e-6));
  }
}

}  // namespace
}  // namespace posenc::train
