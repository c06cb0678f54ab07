#include "lab/optimizer.h"

#include <cmath>

#include "model/transformer.h"

namespace posenc::lab {
namespace {

using experiment::OptimizerKind;

constexpr std::int64_t kAlign = 16;  // numbers: every parameter starts on a cache line

std::int64_t padded(std::int64_t numbers) { return (numbers + kAlign - 1) / kAlign * kAlign; }

}  // namespace

Optimizer::Optimizer(const experiment::TrainConfig& config, torch::nn::Module& model)
    : config_(config) {
  const at::NoGradGuard quiet;
  std::int64_t total = 0;
  for (const auto& item : model.named_parameters()) total += padded(item.value().numel());
  TORCH_CHECK(total > 0, "[optimizer] the model has no parameters");
  const auto options = model.parameters().front().options().requires_grad(false);
  weights_ = at::zeros({total}, options);
  gradient_ = at::zeros({total}, options);
  decay_ = at::zeros({total}, options);
  mean_ = at::zeros({total}, options);
  if (config_.encoding_lr != 1.0) rate_ = at::ones({total}, options);
  if (config_.optimizer != OptimizerKind::kSgd) square_ = at::zeros({total}, options);
  std::int64_t offset = 0;
  for (auto& item : model.named_parameters()) {
    at::Tensor parameter = item.value();
    const at::Tensor place = weights_.narrow(0, offset, parameter.numel()).view_as(parameter);
    place.copy_(parameter);
    parameter.set_data(place);
    parameter.mutable_grad() = gradient_.narrow(0, offset, parameter.numel()).view_as(parameter);
    if (parameter.dim() >= 2 && !model::is_positional(item.key())) {
      decay_.narrow(0, offset, parameter.numel()).fill_(config_.weight_decay);
    }
    if (rate_.defined() && model::is_positional(item.key())) {
      rate_.narrow(0, offset, parameter.numel()).fill_(config_.encoding_lr);
    }
    offset += padded(parameter.numel());
  }
}

void Optimizer::zero_grad() { gradient_.zero_(); }

double Optimizer::clip() {
  const auto norm = gradient_.norm().item<double>();
  if (config_.clip > 0.0 && norm > config_.clip) gradient_.mul_(config_.clip / norm);
  return norm;
}

void Optimizer::step(double lr) {
  const at::NoGradGuard quiet;
  ++steps_;
  config_.optimizer == OptimizerKind::kSgd ? sgd_step(lr) : adam_step(lr);
}

void Optimizer::adam_step(double lr) {
  if (config_.weight_decay > 0.0) {
    if (config_.optimizer == OptimizerKind::kAdam) {
      gradient_.addcmul_(decay_, weights_);
    } else {
      weights_.addcmul_(decay_, weights_, -lr);
    }
  }
  mean_.mul_(config_.beta1).add_(gradient_, 1.0 - config_.beta1);
  square_.mul_(config_.beta2).addcmul_(gradient_, gradient_, 1.0 - config_.beta2);
  const auto t = static_cast<double>(steps_);
  const double mean_left = 1.0 - std::pow(config_.beta1, t);
  const double square_left = 1.0 - std::pow(config_.beta2, t);
  const at::Tensor root = square_.sqrt().div_(std::sqrt(square_left)).add_(config_.epsilon);
  weights_.addcdiv_(rate_.defined() ? mean_ * rate_ : mean_, root, -lr / mean_left);
}

void Optimizer::sgd_step(double lr) {
  if (config_.weight_decay > 0.0) gradient_.addcmul_(decay_, weights_);
  mean_.mul_(config_.momentum).add_(gradient_);
  weights_.add_(rate_.defined() ? mean_ * rate_ : mean_, -lr);
}

NamedTensors Optimizer::state() const {
  NamedTensors tensors = {{"mean", mean_}};
  if (square_.defined()) tensors.emplace_back("square", square_);
  return tensors;
}

void Optimizer::load(const NamedTensors& state, std::int64_t steps) {
  const at::NoGradGuard quiet;
  for (auto& [name, own] : NamedTensors(this->state())) {
    bool found = false;
    for (const auto& [given, values] : state) {
      if (given != name) continue;
      TORCH_CHECK(values.sizes() == own.sizes(), "[optimizer] ", name, " has ", values.numel(),
                  " numbers in the checkpoint and ", own.numel(), " here");
      own.copy_(values);
      found = true;
    }
    TORCH_CHECK(found, "[optimizer] ", name, " is missing in the checkpoint");
  }
  steps_ = steps;
}

}  // namespace posenc::lab
