#include "train/step_work.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/cancellation.h"
#include "train/mixed_precision.h"

namespace posenc::train {
namespace {

// A graph holds the numbers that the host gave when it was recorded: positions that are drawn for every step,
// and the seeds of attention's dropout, would stay the same.
bool recordable(const config::LabConfig& config, const Optimizer& optimizer) {
  return ops::DeviceGraph::available() && optimizer.recordable() &&
         config.train.positions == config::PositionPolicy::kAsIs &&
         config.model.attention_dropout == 0.0;
}

void add(at::Tensor& sum, const at::Tensor& part) {
  const at::Tensor exact = part.detach().to(at::kDouble);
  sum = sum.defined() ? sum + exact : exact;
}

}  // namespace

StepWork::StepWork(const config::LabConfig& config, model::Transformer model, Optimizer& optimizer,
                   at::Device device, Graphs graphs)
    : config_(config),
      model_(std::move(model)),
      optimizer_(optimizer),
      device_(device),
      graphs_(graphs == Graphs::kWherePossible && device.is_cuda() &&
              recordable(config, optimizer)) {}

void StepWork::add_part(const StepSamples& here, const Samples& part, at::Tensor& loss,
                        at::Tensor& correct) {
  const MixedPrecision mixed(config_.train.precision);
  const nn::WeightCopies::Use rounded(copies_);
  const at::Tensor hidden = model_->hidden(part.tokens, here.positions).flatten(0, 1);
  const at::Tensor logits = model_->logits(hidden.index_select(0, part.places)).to(at::kFloat);
  const at::Tensor mean =
      at::cross_entropy_loss(logits, part.targets, {}, at::Reduction::Sum, kIgnored) /
      here.scored_here();
  mean.backward();
  throw_if_cancelled();  // before the numbers are used: kernels may have left out a part
  add(loss, mean);
  add(correct, logits.argmax(-1).eq(part.targets).sum());
}

at::Tensor StepWork::work(const StepSamples& here) {
  optimizer_.zero_grad();
  at::Tensor loss;
  at::Tensor correct;
  for (const Samples& part : here.parts) add_part(here, part, loss, correct);
  const at::Tensor norm = optimizer_.clip();
  optimizer_.update({.value = here.rate, .on_device = here.rate_here()});
  return at::stack({loss, correct, norm});
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
at::Tensor StepWork::queue(const StepSamples& samples) {
  if (device_.is_cpu() || !graphs_) {
    at::Tensor figures = work(samples.in(samples.all.to(device_, at::kLong, true)));
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
