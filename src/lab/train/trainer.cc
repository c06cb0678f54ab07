#include "train/trainer.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include <chrono>
#include <map>
#include <mutex>

#include "core/cancellation.h"
#include "model/interruptible.h"
#include "posenc/core/error.h"

namespace posenc::train {
namespace {

using config::Device;

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Makes a stream the current one. Waits for the stream that was current before, and at its end for its own.
class OnStream {
 public:
  explicit OnStream(const std::optional<c10::Stream>& stream) {
    if (!stream) return;
    c10::impl::VirtualGuardImpl(stream->device_type()).getStream(stream->device()).synchronize();
    stream_ = stream;
    guard_.emplace(*stream);
  }
  ~OnStream() {
    if (!stream_) return;
    try {
      stream_->synchronize();
    } catch (const c10::Error&) {  // of a kernel: reading its result reports it
    }
  }
  OnStream(OnStream&&) = delete;
  OnStream& operator=(OnStream&&) = delete;

 private:
  std::optional<c10::Stream> stream_;
  std::optional<c10::StreamGuard> guard_;
};

// One for all trainers of a device: libtorch keeps a workspace for every stream that has run a product, so
// with a stream each they would add up.
std::optional<c10::Stream> training_stream(at::Device device) {
  if (!device.is_cuda()) return std::nullopt;
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  const std::lock_guard lock(mutex);
  const auto found = streams.find(device.index());
  if (found != streams.end()) return found->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams.emplace(device.index(), guard.getStreamFromGlobalPool(device)).first->second;
}

weights::ElementType element_type(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat, "[checkpoint] tensors are float32 but one is ",
              tensor.scalar_type());
  return weights::ElementType::kF32;
}

// Dense copies in the CPU's memory, and views of their bytes for the writer.
struct Packed {
  std::vector<at::Tensor> kept;
  runs::TensorGroup group;

  void add(const std::string& name, const at::Tensor& tensor) {
    kept.push_back(tensor.detach().to(at::kCPU).contiguous());
    const at::Tensor& dense = kept.back();
    group.tensors.push_back({name,
                             element_type(dense),
                             dense.sizes().vec(),
                             {static_cast<const std::byte*>(dense.data_ptr()), dense.nbytes()}});
  }
};

at::Tensor read_tensor(const weights::Reader& reader, const std::string& name) {
  const weights::TensorInfo& info = reader.at(name);
  at::Tensor tensor = at::empty(info.shape, at::kFloat);
  reader.read(info, 0, {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
  return tensor;
}

NamedTensors weights_of(const torch::nn::Module& model) {
  NamedTensors all;
  for (const auto& item : model.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

}  // namespace

at::Device device_of(const config::TrainConfig& train) {
  if (train.device == Device::kCpu) return at::kCPU;
  if (!torch::cuda::is_available()) {
    throw Error(ErrorKind::kUnsupported, {.scope = "train",
                                          .key = "device",
                                          .rule = "must be cpu where no CUDA device is found",
                                          .value = "cuda",
                                          .hint = "use --set train.device=cpu"});
  }
  return at::kCUDA;
}

model::ModelContext model_context(const config::LabConfig& config, const tasks::Task& task) {
  return {.vocabulary = config::vocabulary(config.model, task.info().vocabulary),
          .causal = !task.info().bidirectional,
          .train_length = train_length(config.train),
          .seed = static_cast<std::uint64_t>(config.seed),
          .pad = task.info().pad,
          .separator = task.info().separator};
}

Pace Pace::of(at::Device device, bool several_processes) {
  if (device.is_cpu()) return {};
  if (several_processes) return {.steps = 1, .prefetch = 4, .graphs = Graphs::kNever};
  return {.steps = 1000, .prefetch = 4, .graphs = Graphs::kWherePossible};
}

std::optional<Pieces> pieces_of(const config::TrainConfig& train, const parallel::Ranks* ranks) {
  const std::int64_t world = ranks == nullptr ? 1 : ranks->world();
  const std::int64_t rank = ranks == nullptr ? 0 : ranks->rank();
  if (train.reduction == config::Reduction::kDeterministic) {
    const std::int64_t count = train.chunks / world;
    return Pieces{.first = rank * count, .count = count, .all = train.chunks};
  }
  if (ranks == nullptr) return std::nullopt;
  return Pieces{.first = rank, .count = 1, .all = world};
}

Trainer::Trainer(const config::LabConfig& config, const tasks::Task& task,
                 const model::AttentionFactory& factory, std::optional<Pace> pace,
                 parallel::Ranks* ranks)
    : config_(config),
      task_(task),
      device_(device_of(config.train)),
      ranks_(ranks),
      pace_(pace.value_or(Pace::of(device_, ranks != nullptr))) {
  model_ = model::Transformer(config.model, model_context(config, task), factory);
  model_->to(device_);
  model_->train();
  model_->recompute_blocks(config.train.checkpoint_blocks);
  optimizer_ = std::make_unique<Optimizer>(config.train, *model_, ranks);
  work_ = std::make_unique<StepWork>(config_, model_, *optimizer_, device_, pace_.graphs, ranks);
  stream_ = training_stream(device_);
}

// Starts over where the next batch is not the next step's: after a resume, or a step that was cut off.
StepSamples Trainer::next_samples() {
  if (!samples_ || samples_->next_step() != steps()) {
    const StepLayout layout = StepLayout::of(device_);
    samples_.reset();
    samples_ = std::make_unique<Prefetch>(
        [this, layout, pieces = pieces_of(config_.train, ranks_)](std::int64_t step) {
          return step_samples(task_, config_, step, layout, pieces);
        },
        steps(), total_steps(config_.train), pace_.prefetch);
  }
  return samples_->next();
}

Trainer::Queued Trainer::queue_step(const std::atomic<bool>* stop) {
  const Stopwatch all;
  Queued queued;
  const StepSamples samples = next_samples();
  queued.report.data_seconds = all.seconds();
  queued.report.tokens = samples.tokens;
  queued.report.scored = samples.scored;
  queued.report.rate = samples.rate;
  const bool stops = stop != nullptr && stop->load(std::memory_order_relaxed);
  const model::Interruptible scope(ranks_ == nullptr ? stop : nullptr);
  queued.figures = work_->queue(samples, stops);
  return queued;
}

std::vector<StepReport> Trainer::run(std::int64_t count, const std::atomic<bool>* stop) {
  const Stopwatch all;
  const OnStream scope(stream_);
  std::vector<Queued> queue;
  while (std::ssize(queue) < count) {
    const bool asked = stop != nullptr && stop->load(std::memory_order_relaxed);
    if (!queue.empty() && asked && ranks_ == nullptr) break;
    try {
      queue.push_back(queue_step(stop));
    } catch (const Interrupted&) {
      if (queue.empty()) throw;
      break;
    }
  }
  std::vector<at::Tensor> figures;
  for (const Queued& q : queue) figures.push_back(q.figures);
  const at::Tensor read = at::stack(figures).to(at::kCPU);  // the one place that waits
  const auto* value = read.data_ptr<double>();
  std::vector<StepReport> reports;
  for (Queued& q : queue) {
    q.report.loss = value[kLoss];
    q.report.correct = static_cast<std::int64_t>(value[kCorrect]);
    if (ranks_ != nullptr) q.report.scored = static_cast<std::int64_t>(value[kScored]);
    q.report.stops = value[kStops] > 0.0;
    q.report.gradient_norm = value[kNorm];
    value += kFigures;
    q.report.seconds = all.seconds() / static_cast<double>(queue.size());
    reports.push_back(q.report);
  }
  return reports;
}

namespace {

// Of every positional parameter, read from the device together.
std::vector<std::pair<std::string, double>> norms_of(const torch::nn::Module& model,
                                                     bool of_gradients) {
  std::vector<std::pair<std::string, double>> norms;
  std::vector<at::Tensor> values;
  for (const auto& item : model.named_parameters()) {
    if (!model::is_positional(item.key())) continue;
    norms.emplace_back(item.key(), 0.0);
    const at::Tensor& x = of_gradients ? item.value().grad() : item.value();
    values.push_back(x.detach().norm().to(at::kDouble));
  }
  if (values.empty()) return norms;
  const at::Tensor read = at::stack(values).to(at::kCPU);
  for (std::size_t i = 0; i < norms.size(); ++i) norms[i].second = read.data_ptr<double>()[i];
  return norms;
}

}  // namespace

std::vector<std::pair<std::string, double>> Trainer::positional_norms() const {
  return norms_of(*model_, false);
}

std::vector<std::pair<std::string, double>> Trainer::positional_gradient_norms() const {
  return norms_of(*model_, true);
}

void Trainer::save(runs::Checkpoints* checkpoints, const Value& state,
                   std::optional<double> score) const {
  const NamedTensors optimizer_state = optimizer_->state();
  if (checkpoints == nullptr) return;
  Packed weights{.kept = {}, .group = {"model", {}}};
  for (const auto& [name, tensor] : weights_of(*model_)) weights.add(name, tensor);
  Packed moments{.kept = {}, .group = {"optimizer", {}}};
  for (const auto& [name, tensor] : optimizer_state) moments.add(name, tensor);
  const std::array<runs::TensorGroup, 2> groups = {weights.group, moments.group};
  checkpoints->save(steps(), groups, state, score);
}

void Trainer::load_weights(model::Transformer& model, const runs::Loaded& checkpoint) {
  const at::NoGradGuard quiet;
  const weights::Reader& reader = checkpoint.group("model");
  for (auto& [name, tensor] : weights_of(*model)) {
    const at::Tensor values = read_tensor(reader, name);
    TORCH_CHECK(values.sizes() == tensor.sizes(), "[checkpoint] ", name, " is ", values.sizes(),
                " in the checkpoint and ", tensor.sizes(), " in the model");
    tensor.copy_(values);
  }
}

void Trainer::copy_weights(model::Transformer& model, const model::Transformer& from) {
  const at::NoGradGuard quiet;
  const NamedTensors values = weights_of(*from);
  NamedTensors own = weights_of(*model);
  TORCH_CHECK(own.size() == values.size(), "[model] has ", own.size(), " tensors and the other ",
              values.size());
  for (std::size_t i = 0; i < own.size(); ++i) own[i].second.copy_(values[i].second);
}

void Trainer::share_weights() {
  if (ranks_ == nullptr) return;
  const at::NoGradGuard quiet;
  for (auto& [name, tensor] : weights_of(*model_)) ranks_->broadcast(tensor);
}

void Trainer::load(const runs::Loaded* checkpoint) {
  std::int64_t step = 0;
  NamedTensors moments;
  if (checkpoint != nullptr) {
    load_weights(model_, *checkpoint);
    step = checkpoint->step;
    const weights::Reader& reader = checkpoint->group("optimizer");
    for (const weights::TensorInfo& info : reader.tensors()) {
      moments.emplace_back(info.name, read_tensor(reader, info.name));
    }
  }
  if (ranks_ != nullptr) {
    share_weights();
    at::Tensor number = at::full({1}, step, at::kLong);
    ranks_->broadcast(number);
    step = number.item<std::int64_t>();
    if (checkpoint == nullptr) moments = optimizer_->empty_state();
    for (auto& [name, tensor] : moments) ranks_->broadcast(tensor);
  }
  optimizer_->load(moments, step);
}

}  // namespace posenc::train
