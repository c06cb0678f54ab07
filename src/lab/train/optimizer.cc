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

Optimizer::Optimizer(const config::TrainConfig& config, torch::nn::Module& model,
                     parallel::Ranks* ranks)
    : config_(config), ranks_(ranks) {
  const at::NoGradGuard quiet;
  std::int64_t total = 0;
  for (const auto& item : model.named_parameters()) total += padded(item.value().numel());
  TORCH_CHECK(total > 0, "[optimizer] the model has no parameters");
  const auto options = model.parameters().front().options().requires_grad(false);
  choose_part(total);
  padded_weights_ = at::zeros({sharded() ? part_size_ * ranks_->world() : total}, options);
  weights_ = padded_weights_.narrow(0, 0, total);
  gradient_ = at::zeros({total}, options);
  decay_ = at::zeros({total}, options);
  mean_ = at::zeros({part_end_ - part_begin_}, options);
  if (config_.encoding_lr != 1.0) rate_ = at::ones({total}, options);
  if (config_.optimizer != OptimizerKind::kSgd) square_ = at::zeros_like(mean_);
  fused_ = has_fused_adam(weights_, config_.optimizer);
  hands_over_ = fused_ && ranks_ == nullptr && config_.reduction == config::Reduction::kFast;
  if (fused_) step_ = at::zeros({1}, options);
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
    names_.push_back(item.key());
    places_.push_back(gradient_.narrow(0, offset, parameter.numel()).view_as(parameter));
    parameter.mutable_grad() = places_.back();
    if (decay > 0.0) decay_.narrow(0, offset, parameter.numel()).fill_(decay);
    if (rate_.defined()) rate_.narrow(0, offset, parameter.numel()).fill_(rate);
    if (fused_) add_to_group(offset, parameter.numel(), decay, rate);
    offset += padded(parameter.numel());
  }
}

void Optimizer::choose_part(std::int64_t total) {
  part_size_ = part_end_ = total;
  if (!sharded()) return;
  part_size_ = padded((total + ranks_->world() - 1) / ranks_->world());
  part_begin_ = std::min(total, ranks_->rank() * part_size_);
  part_end_ = std::min(total, part_begin_ + part_size_);
}

std::vector<ParameterPlace> Optimizer::places() const {
  std::vector<ParameterPlace> all;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    all.push_back({parameters_[i], names_[i], places_[i].storage_offset()});
  }
  return all;
}

at::Tensor Optimizer::part(const at::Tensor& whole) const {
  return whole.narrow(0, part_begin_, part_end_ - part_begin_);
}

at::Tensor Optimizer::whole(const at::Tensor& part) const {
  if (!sharded()) return part;
  at::Tensor padded_part = at::zeros({part_size_}, part.options());
  padded_part.narrow(0, 0, part.numel()).copy_(part);
  return at::cat(ranks_->gather(padded_part)).narrow(0, 0, weights_.numel());
}

void Optimizer::gather_weights() {
  if (!sharded()) return;
  std::vector<at::Tensor> parts;
  for (int r = 0; r < ranks_->world(); ++r) {
    parts.push_back(padded_weights_.narrow(0, r * part_size_, part_size_));
  }
  ranks_->gather(parts[static_cast<std::size_t>(ranks_->rank())].clone(), parts);
}

// Of the numbers that this process updates.
void Optimizer::add_to_group(std::int64_t offset, std::int64_t numbers, double decay, double rate) {
  const std::int64_t begin = std::max(offset, part_begin_);
  numbers = std::min(offset + numbers, part_end_) - begin;
  if (numbers <= 0) return;
  auto group = std::find_if(groups_.begin(), groups_.end(),
                            [&](const Group& g) { return g.decay == decay && g.rate == rate; });
  if (group == groups_.end()) {
    group = groups_.insert(groups_.end(), Group{});
    group->decay = decay;
    group->rate = rate;
  }
  group->weights.push_back(weights_.narrow(0, begin, numbers));
  group->gradients.push_back(gradient_.narrow(0, begin, numbers));
  group->means.push_back(mean_.narrow(0, begin - part_begin_, numbers));
  group->squares.push_back(square_.narrow(0, begin - part_begin_, numbers));
  group->steps.push_back(step_);
}

// A backward pass adds to gradients that are there, one kernel each; those that are not it only has to hand over.
void Optimizer::zero_grad() {
  gradient_.zero_();
  if (!hands_over_) return;
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void Optimizer::gather_gradients() {
#if POSENC_TORCH_AT_LEAST(2, 4)
  if (!hands_over_) return;
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
  if (config_.optimizer == OptimizerKind::kSgd) {
    sgd_step(rate.value);
  } else if (fused_) {
    fused_adam_step(rate);
  } else {
    adam_step(rate.value);
  }
  gather_weights();
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
  at::Tensor weights = part(weights_);
  at::Tensor gradient = part(gradient_);
  if (config_.weight_decay > 0.0) {
    if (config_.optimizer == OptimizerKind::kAdam) {
      gradient.addcmul_(part(decay_), weights);
    } else {
      weights.addcmul_(part(decay_), weights, -lr);
    }
  }
  mean_.mul_(config_.beta1).add_(gradient, 1.0 - config_.beta1);
  square_.mul_(config_.beta2).addcmul_(gradient, gradient, 1.0 - config_.beta2);
  const auto t = static_cast<double>(steps_ + 1);
  const double mean_left = 1.0 - std::pow(config_.beta1, t);
  const double square_left = 1.0 - std::pow(config_.beta2, t);
  const at::Tensor root = square_.sqrt().div_(std::sqrt(square_left)).add_(config_.epsilon);
  weights.addcdiv_(rate_.defined() ? mean_ * part(rate_) : mean_, root, -lr / mean_left);
}

void Optimizer::sgd_step(double lr) {
  at::Tensor weights = part(weights_);
  at::Tensor gradient = part(gradient_);
  if (config_.weight_decay > 0.0) gradient.addcmul_(part(decay_), weights);
  mean_.mul_(config_.momentum).add_(gradient);
  weights.add_(rate_.defined() ? mean_ * part(rate_) : mean_, -lr);
}

NamedTensors Optimizer::state() const {
  NamedTensors tensors = {{"mean", whole(mean_)}};
  if (square_.defined()) tensors.emplace_back("square", whole(square_));
  return tensors;
}

NamedTensors Optimizer::empty_state() const {
  NamedTensors tensors = {{"mean", at::zeros({weights_.numel()})}};
  if (square_.defined()) tensors.emplace_back("square", at::zeros({weights_.numel()}));
  return tensors;
}

void Optimizer::load(const NamedTensors& state, std::int64_t steps) {
  const at::NoGradGuard quiet;
  NamedTensors all = {{"mean", mean_}};
  if (square_.defined()) all.emplace_back("square", square_);
  for (auto& [name, own] : all) {
    bool found = false;
    for (const auto& [given, values] : state) {
      if (given != name) continue;
      TORCH_CHECK(values.numel() == weights_.numel(), "[optimizer] ", name, " has ", values.numel(),
                  " numbers in the checkpoint and ", weights_.numel(), " here");
      own.copy_(part(values));
      found = true;
    }
    TORCH_CHECK(found, "[optimizer] ", name, " is missing in the checkpoint");
  }
  steps_ = steps;
  if (step_.defined()) step_.fill_(static_cast<double>(steps));
}

}  // namespace posenc::train
