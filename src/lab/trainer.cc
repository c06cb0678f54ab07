#include "lab/trainer.h"

#include <torch/cuda.h>
#include <torch/utils.h>

#include <chrono>

#include "experiment/rate.h"
#include "lab/mixed_precision.h"
#include "model/interruptible.h"
#include "posenc/core/error.h"

namespace posenc::lab {
namespace {

using experiment::Device;

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::uint64_t mixed(std::int64_t seed, std::int64_t step) {
  return static_cast<std::uint64_t>(seed) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(step);
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

at::Device device_of(const experiment::TrainConfig& train) {
  if (train.device == Device::kCpu) return at::kCPU;
  if (!torch::cuda::is_available()) {
    throw Error(ErrorKind::kUnsupported,
                {.scope = "train",
                 .key = "device",
                 .rule = "is cuda, and this machine or this build has none",
                 .value = "",
                 .hint = "use --set train.device=cpu"});
  }
  return at::kCUDA;
}

model::ModelContext model_context(const experiment::LabConfig& config, const tasks::Task& task) {
  return {.vocabulary = task.info().vocabulary,
          .causal = !task.info().bidirectional,
          .train_length = train_length(config.train),
          .seed = static_cast<std::uint64_t>(config.seed),
          .pad = task.info().pad};
}

Trainer::Trainer(const experiment::LabConfig& config, const tasks::Task& task,
                 const model::AttentionFactory& factory)
    : config_(config), task_(task), device_(device_of(config.train)) {
  model_ = model::Transformer(config.model, model_context(config, task), factory);
  model_->to(device_);
  model_->train();
  optimizer_ = std::make_unique<Optimizer>(config.train, *model_);
}

void Trainer::accumulate(const tasks::Batch& batch, const at::Tensor& positions,
                         StepReport& report) {
  const std::int64_t parts = config_.train.accumulate;
  std::int64_t scored = 0;
  for (const std::int32_t target : batch.targets) scored += target == tasks::kUnscored ? 0 : 1;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t rows = batch.rows / parts;
    const Samples samples = to_samples(batch, part * rows, rows, device_);
    const MixedPrecision mixed(config_.train.precision);
    const at::Tensor hidden = model_->hidden(samples.tokens, positions).flatten(0, 1);
    const at::Tensor logits = model_->logits(hidden.index_select(0, samples.places)).to(at::kFloat);
    const at::Tensor loss =
        at::cross_entropy_loss(logits, samples.targets, {}, at::Reduction::Sum) /
        static_cast<double>(std::max<std::int64_t>(scored, 1));
    loss.backward();
    throw_if_cancelled();  // before the numbers are used: kernels may have left out a part
    report.loss += loss.item<double>();
    report.correct += logits.argmax(-1).eq(samples.targets).sum().item<std::int64_t>();
  }
  report.scored = scored;
}

StepReport Trainer::step(const std::atomic<bool>* stop) {
  const Stopwatch all;
  const std::int64_t at = steps();
  const experiment::StageAt place = experiment::stage_at(config_.train, at);
  tasks::Batch batch;
  batch.rows = place.stage.batch;
  fill_training_rows(task_, config_, place, batch);
  StepReport report;
  report.data_seconds = all.seconds();
  report.tokens = batch.rows * batch.length;
  torch::manual_seed(mixed(config_.seed, at));
  model_->set_step(at * config_.train.accumulate);
  optimizer_->zero_grad();
  {
    const model::Interruptible scope(stop);
    accumulate(batch,
               training_positions(config_.train, place.stage.length,
                                  static_cast<std::uint64_t>(config_.seed), at),
               report);
  }
  report.gradient_norm = optimizer_->clip();
  report.rate = experiment::learning_rate(config_.train, at);
  if (std::isfinite(report.loss) && std::isfinite(report.gradient_norm)) {
    optimizer_->step(report.rate);
  }
  report.seconds = all.seconds();
  return report;
}

std::vector<std::pair<std::string, double>> Trainer::positional_norms() const {
  std::vector<std::pair<std::string, double>> norms;
  for (const auto& item : model_->named_parameters()) {
    if (!model::is_positional(item.key())) continue;
    norms.emplace_back(item.key(), item.value().detach().norm().item<double>());
  }
  return norms;
}

std::vector<std::pair<std::string, double>> Trainer::positional_gradient_norms() const {
  std::vector<std::pair<std::string, double>> norms;
  for (const auto& item : model_->named_parameters()) {
    if (!model::is_positional(item.key())) continue;
    norms.emplace_back(item.key(), item.value().grad().norm().item<double>());
  }
  return norms;
}

void Trainer::save(runs::Checkpoints& checkpoints, const Value& state,
                   std::optional<double> score) const {
  Packed weights{.kept = {}, .group = {"model", {}}};
  for (const auto& [name, tensor] : weights_of(*model_)) weights.add(name, tensor);
  Packed moments{.kept = {}, .group = {"optimizer", {}}};
  for (const auto& [name, tensor] : optimizer_->state()) moments.add(name, tensor);
  const std::array<runs::TensorGroup, 2> groups = {weights.group, moments.group};
  checkpoints.save(steps(), groups, state, score);
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

void Trainer::load(const runs::Loaded& checkpoint) {
  load_weights(model_, checkpoint);
  NamedTensors moments;
  const weights::Reader& reader = checkpoint.group("optimizer");
  for (const weights::TensorInfo& info : reader.tensors()) {
    moments.emplace_back(info.name, read_tensor(reader, info.name));
  }
  optimizer_->load(moments, checkpoint.step);
}

}  // namespace posenc::lab
