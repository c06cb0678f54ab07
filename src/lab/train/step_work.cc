#include "train/step_work.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/utils.h>

#include "core/cancellation.h"
#include "model/row_dropout.h"
#include "train/mixed_precision.h"
#include "train/tree_sum.h"

namespace posenc::train {
namespace {

// The borders of documents are read from the tokens of each step.
bool packs_documents(const config::LabConfig& config) {
  const auto* task = std::get_if<tasks::LanguageModel>(&config.task);
  return task != nullptr && masks_documents(*task);
}

// A graph holds the numbers that the host gave when it was recorded: positions that are drawn for every step,
// and the seeds of attention's dropout, would stay the same.
bool recordable(const config::LabConfig& config, const Optimizer& optimizer) {
  return !config.train.checkpoint_blocks && ops::DeviceGraph::available() &&
         optimizer.recordable() && config.train.positions == config::PositionPolicy::kAsIs &&
         config.model.attention_dropout == 0.0 && !packs_documents(config);
}

std::uint64_t mixed_seed(std::int64_t seed, std::int64_t step) {
  return static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(step);
}

void add(at::Tensor& sum, const at::Tensor& part) {
  const at::Tensor exact = part.detach().to(at::kDouble);
  sum = sum.defined() ? sum + exact : exact;
}

}  // namespace

StepWork::StepWork(const config::LabConfig& config, model::Transformer model, Optimizer& optimizer,
                   at::Device device, Graphs graphs, parallel::Ranks* ranks)
    : config_(config),
      model_(std::move(model)),
      optimizer_(optimizer),
      device_(device),
      ranks_(ranks),
      graphs_(graphs == Graphs::kWherePossible && device.is_cuda() &&
              recordable(config, optimizer)) {
  if (ranks == nullptr || config.train.reduction == config::Reduction::kDeterministic) return;
  // Blocks may share the parameters of encodings, and blocks that are computed again add to them one after another.
  const auto late = [again = config.train.checkpoint_blocks](const std::string& name) {
    return again && model::is_positional(name);
  };
  buckets_ = std::make_unique<GradientBuckets>(*ranks, optimizer,
                                               GradientBuckets::usual_bytes(optimizer), late);
}

void StepWork::restart_draws(std::int64_t step) {
  torch::manual_seed(mixed_seed(config_.seed, step));
  model_->set_step(step * config_.train.accumulate);
}

void StepWork::add_part(const StepSamples& here, std::size_t number, at::Tensor& loss,
                        at::Tensor& correct) {
  const Samples& part = here.parts[number];
  const model::BatchRows rows(here.rows[number].first, here.rows[number].of);
  const MixedPrecision mixed(config_.train.precision);
  const nn::WeightCopies::Use rounded(copies_);
  const at::Tensor hidden = model_->hidden(part.tokens, here.positions).flatten(0, 1);
  const at::Tensor logits = model_->logits(hidden.index_select(0, part.places)).to(at::kFloat);
  const at::Tensor mean =
      at::cross_entropy_loss(logits, part.targets, {}, at::Reduction::Sum, kIgnored) /
      here.divisor_here();
  mean.backward();
  throw_if_cancelled();  // before the numbers are used: kernels may have left out a part
  add(loss, mean);
  add(correct, logits.argmax(-1).eq(part.targets).sum());
}

at::Tensor StepWork::work(const StepSamples& here) {
  optimizer_.zero_grad();
  at::Tensor loss;
  at::Tensor correct;
  for (std::size_t part = 0; part < here.parts.size(); ++part) {
    add_part(here, part, loss, correct);
  }
  const at::Tensor norm = optimizer_.clip();
  optimizer_.update({.value = here.rate, .on_device = here.rate_here()});
  const at::Tensor scored = here.all.select(0, 0).to(at::kDouble);
  return at::stack({loss, correct, scored, at::zeros_like(scored), norm});
}

// The parts of one piece; the sum of their gradients is in place when the last has been computed.
void StepWork::add_parts(const StepSamples& here, std::int64_t piece, const at::Tensor& figures) {
  const auto parts = static_cast<std::size_t>(config_.train.accumulate);
  at::Tensor loss;
  at::Tensor correct;
  for (std::size_t part = 0; part < parts; ++part) {
    if (buckets_ && part + 1 == parts) buckets_->arm();
    add_part(here, static_cast<std::size_t>(piece) * parts + part, loss, correct);
  }
  figures.select(0, kLoss).copy_(loss);
  figures.select(0, kCorrect).copy_(correct);
}

at::Tensor StepWork::add_in_order(const StepSamples& here, at::Tensor figures) {
  const auto pieces = std::ssize(here.parts) / config_.train.accumulate;
  TreeSum gradients;
  TreeSum found;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    optimizer_.zero_grad();
    if (piece > 0) restart_draws(here.step);
    at::Tensor of_piece = at::zeros_like(figures);
    add_parts(here, piece, of_piece);
    gradients.add(optimizer_.gradient().clone());
    found.add(std::move(of_piece));
  }
  const at::NoGradGuard quiet;
  optimizer_.gradient().copy_(gradients.total());
  figures.add_(found.total());
  if (ranks_ != nullptr) {
    tree_sum(*ranks_, optimizer_.gradient());
    tree_sum(*ranks_, figures);
  }
  return figures;
}

at::Tensor StepWork::add_overlapping(const StepSamples& here, at::Tensor figures) {
  optimizer_.zero_grad();
  at::Tensor found = at::zeros_like(figures);
  add_parts(here, 0, found);
  figures.add_(found);
  const auto exchange = ranks_->start_sum(figures);
  buckets_->finish();
  ranks_->wait(*exchange);
  return figures;
}

// The loss was divided by the tokens of the step; now it is known how many of them are scored.
at::Tensor StepWork::shared_work(const StepSamples& here, bool stops) {
  at::Tensor figures = at::zeros({kFigures}, at::TensorOptions(at::kDouble));
  figures.select(0, kScored).fill_(static_cast<double>(here.scored));
  figures.select(0, kStops).fill_(stops ? 1.0 : 0.0);
  figures = figures.to(device_);
  figures = buckets_ ? add_overlapping(here, figures) : add_in_order(here, figures);
  const at::NoGradGuard quiet;
  const at::Tensor scale =
      here.divisor_here().to(at::kDouble) / figures.select(0, kScored).clamp_min(1.0);
  optimizer_.gradient().mul_(scale);
  figures.select(0, kLoss).mul_(scale);
  figures.select(0, kNorm).copy_(optimizer_.clip());
  optimizer_.update({.value = here.rate, .on_device = here.rate_here()});
  return figures;
}

// Graphs of one length at a time: tables that they read are replaced for another length. The GPU may still run the
// last one.
StepWork::Recorded& StepWork::recorded_for(const StepSamples& samples) {
  const std::int64_t length = samples.parts.front().tokens.size(1);
  if (length != length_ && !recorded_.empty()) {
    c10::impl::VirtualGuardImpl(device_.type()).getStream(device_).synchronize();
    recorded_.clear();
  }
  length_ = length;
  Shape shape;
  for (const Samples& part : samples.parts) {
    shape.insert(shape.end(), {part.tokens.size(0), part.places.size(0)});
  }
  return recorded_[shape];
}

bool StepWork::record(Recorded& recorded, const StepSamples& here) {
  const ops::DeviceGraph* sharing = nullptr;
  for (const auto& [shape, other] : recorded_) {
    if (other.graph) sharing = other.graph.get();
  }
  auto graph = std::make_unique<ops::DeviceGraph>();
  try {
    graph->record([&] { recorded.figures = work(here); }, sharing);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    TORCH_WARN(
        "steps are queued one kernel at a time, which is slower: they could not be recorded: ",
        error.what_without_backtrace());
    return graphs_ = false;
  }
  recorded.graph = std::move(graph);
  return true;
}

// The first step of a shape is queued as it is: libraries are loaded and tables made by it.
at::Tensor StepWork::queue(const StepSamples& samples, bool stops) {
  restart_draws(samples.step);
  const bool shared =
      ranks_ != nullptr || config_.train.reduction == config::Reduction::kDeterministic;
  if (device_.is_cpu() || !graphs_) {
    const StepSamples here = samples.in(samples.all.to(device_, at::kLong, true));
    at::Tensor figures = shared ? shared_work(here, stops) : work(here);
    optimizer_.count_step();
    return figures;
  }
  Recorded& recorded = recorded_for(samples);
  const bool first = !recorded.samples.defined();
  if (first) recorded.samples = at::empty_like(samples.all, device_);
  recorded.samples.copy_(samples.all, true);
  const StepSamples here = samples.in(recorded.samples);
  const bool replayed = !first && (recorded.graph || record(recorded, here));
  if (replayed) recorded.graph->replay();
  at::Tensor figures = replayed ? recorded.figures.clone() : work(here);
  optimizer_.count_step();
  return figures;
}

}  // namespace posenc::train
