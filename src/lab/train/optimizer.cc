#include "train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "model/transformer.h"
#include "torch/torch_version.h"

namespace posenc::train {
namespace {

using config::OptimizerKind;

constexpr std::int64_t kAlign = 16;  // numbers: every parameter starts on a cache line

std::int64_t padded(std::int64_t numbers) { return (numbers + kAlign - 1) / kAlign * kAlign; }

bool has_fused_adam(const at::Tensor& weights, OptimizerKind kind) {
  return POSENC_TORCH_AT_LEAST(2, 4) && weights.is_cuda() && kind != OptimizerKind::kSgd;
}

}  // namespace

Optimizer::Optimizer(const config::TrainConfig& config, torch::nn::Module& model)
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
  const bool fused = has_fused_adam(weights_, config_.optimizer);
  if (fused) step_ = at::zeros({1}, options);
  std::int64_t offset = 0;
  for (auto& item : model.named_parameters()) {
    at::Tensor parameter = item.value();
    const bool positional = model::is_positional(item.key());
    const double decay = parameter.dim() >= 2 && !positional ? config_.weight_decay : 0.0;
    const double rate = positional ? config_.encoding_lr : 1.0;
    const at::Tensor place = weights_.narrow(0, offset, parameter.numel()).view_as(parameter);
    place.copy_(parameter);
    parameter.set_data(place);
    parameters_.push_back(parameter);
    places_.push_back(gradient_.narrow(0, offset, parameter.numel()).view_as(parameter));
    parameter.mutable_grad() = places_.back();
    if (decay > 0.0) decay_.narrow(0, offset, parameter.numel()).fill_(decay);
    if (rate_.defined()) rate_.narrow(0, offset, parameter.numel()).fill_(rate);
    if (fused) add_to_group(offset, parameter.numel(), decay, rate);
    offset += padded(parameter.numel());
  }
}

void Optimizer::add_to_group(std::int64_t offset, std::int64_t numbers, double decay, double rate) {
  auto group = std::find_if(groups_.begin(), groups_.end(),
                            [&](const Group& g) { return g.decay == decay && g.rate == rate; });
  if (group == groups_.end()) {
    group = groups_.insert(groups_.end(), Group{});
    group->decay = decay;
    group->rate = rate;
  }
  group->weights.push_back(weights_.narrow(0, offset, numbers));
  group->gradients.push_back(gradient_.narrow(0, offset, numbers));
  group->means.push_back(mean_.narrow(0, offset, numbers));
  group->squares.push_back(square_.narrow(0, offset, numbers));
  group->steps.push_back(step_);
}

// A backward pass adds to gradients that are there, one kernel each; those that are not it only has to hand over.
void Optimizer::zero_grad() {
  gradient_.zero_();
  if (groups_.empty()) return;
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void Optimizer::gather_gradients() {
#if POSENC_TORCH_AT_LEAST(2, 4)
  if (groups_.empty()) return;
  const at::NoGradGuard quiet;
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& gradient = parameters_[i].mutable_grad();
    if (gradient.defined() && !gradient.is_same(places_[i])) {
      to.push_back(places_[i]);
      from.push_back(gradient);
    }
    gradient = places_[i];
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
#endif
}

at::Tensor Optimizer::clip() {
  const at::NoGradGuard quiet;
  gather_gradients();
  at::Tensor norm = gradient_.norm().to(at::kDouble);
  if (config_.clip > 0.0) gradient_.mul_((config_.clip / norm).clamp_max(1.0));
  return norm;
}

void Optimizer::update(const Rate& rate) {
  const at::NoGradGuard quiet;
  gather_gradients();
  if (config_.optimizer == OptimizerKind::kSgd) return sgd_step(rate.value);
  return groups_.empty() ? adam_step(rate.value) : fused_adam_step(rate);
}

void Optimizer::fused_adam_step([[maybe_unused]] const Rate& rate) {
#if POSENC_TORCH_AT_LEAST(2, 4)
  step_.add_(1);
  const at::Tensor here = rate.on_device.defined()
                              ? rate.on_device
                              : at::full({}, rate.value, step_.options().dtype(at::kDouble));
  const auto call = [&](const auto& update, const Group& g) {
    const std::vector<at::Tensor> no_maxima;
    const at::Tensor lr = (here * g.rate).to(at::kFloat);
    update(g.weights, g.gradients, g.means, g.squares, no_maxima, g.steps, lr, config_.beta1,
           config_.beta2, g.decay, config_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
  };
  for (const Group& g : groups_) {
    if (config_.optimizer == OptimizerKind::kAdam) {
      call([](const auto&... x) { at::_fused_adam_(x...); }, g);
    } else {
      call([](const auto&... x) { at::_fused_adamw_(x...); }, g);
    }
  }
#endif
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
  const auto t = static_cast<double>(steps_ + 1);
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
  if (step_.defined()) step_.fill_(static_cast<double>(steps));
}

}  // namespace posenc::train
