#include "bench/training.h"

#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/baseline.h"
#include "bench/memory.h"
#include "bench/torch/compositions.h"
#include "bench/torch/gpu_busy.h"
#include "bench/torch/gpu_memory.h"
#include "config/memory.h"
#include "train/machine.h"
#include "train/trainer.h"

namespace posenc::bench {
namespace {

// The same module with the scores, biases and positions as tensors in between.
class ComposedAttention : public nn::AttentionImpl {
 public:
  ComposedAttention(nn::AttentionConfig config, nn::EncodingParameters shared)
      : nn::AttentionImpl(std::move(config), std::move(shared)),
        spec_(parse_spec(this->config().spec)),
        shape_{.head_dim = this->config().head_dim, .heads = this->config().heads} {}

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::AttentionOptions& /*options*/) override {
    prepare(q);
    at::Tensor turned_q = q;
    at::Tensor turned_k = k;
    for (const RopeTables& tables : ropes_) {
      turned_q = apply_rope(turned_q, tables);
      turned_k = apply_rope(turned_k, tables);
    }
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
    at::Tensor scores = at::matmul(turned_q * scale, turned_k.transpose(-2, -1));
    scores = add_encodings(spec_, grouped(), *distances_, q, scores);
    scores = scores.masked_fill(distances_->hidden, -INFINITY);
    return at::matmul(at::softmax(scores, -1), v);
  }

 private:
  void prepare(const at::Tensor& q) {
    const std::int64_t tokens = q.size(2);
    if (distances_ && distances_->distance.size(0) == tokens) return;
    distances_.emplace(tokens, spec_);
    ropes_ = rope_tables(spec_, shape_, tokens, at::kFloat);
    move_to(q.device());
  }
  void move_to(at::Device device) {
    distances_->hidden = distances_->hidden.to(device);
    distances_->distance = distances_->distance.to(device);
    for (at::Tensor& entries : distances_->entries) {
      if (entries.defined()) entries = entries.to(device);
    }
    for (RopeTables& tables : ropes_) {
      tables.cos = tables.cos.to(device);
      tables.sin = tables.sin.to(device);
    }
  }

  TorchParameters grouped() {
    TorchParameters groups(spec_.encodings.size());
    const auto& tensors = pos->tensors();
    std::size_t next = 0;
    for (const SpecParameter& p : posenc::parameters(spec_, shape_)) {
      groups[p.encoding].push_back(tensors[next++]);
    }
    return groups;
  }

  Spec spec_;
  ModelShape shape_;
  std::optional<Distances> distances_;
  std::vector<RopeTables> ropes_;
};

config::LabConfig config_for(const std::string& encoding, const TrainingShape& shape,
                             const TrainingPlace& place) {
  config::LabConfig config;
  config.task = tasks::FlipFlop{};
  config.model.encoding = {encoding};
  config.model.layers = shape.layers;
  config.model.dim = shape.dim;
  config.model.heads = shape.heads;
  config.train.length = shape.length;
  config.train.batch = shape.batch;
  config.train.steps = 1000000;
  config.train.device = place.device;
  config.train.precision = place.precision;
  validate(config.model, "bench");
  validate(config.train, "bench");
  return config;
}

bool has_composition(const std::string& encoding) {
  const Spec attention = attention_part(parse_spec(encoding));
  return std::all_of(attention.encodings.begin(), attention.encodings.end(), is_composed);
}

// One model with one kind of attention, on one device.
class Measurement {
 public:
  Measurement(const config::LabConfig& config, const tasks::Task& task, const Effort& effort)
      : config_(config),
        task_(task),
        effort_(effort),
        on_gpu_(config.train.device == config::Device::kCuda) {}

  // Nothing where the device has not the memory.
  [[nodiscard]] std::optional<TrainingFigures> run(const model::AttentionFactory& factory) const {
    try {
      return measure(factory);
    } catch (const c10::OutOfMemoryError&) {
    } catch (const std::bad_alloc&) {
    }
    if (on_gpu_) release_gpu_memory();
    return std::nullopt;
  }

 private:
  [[nodiscard]] TrainingFigures measure(const model::AttentionFactory& factory) const {
    TrainingFigures figures;
    {
      train::Trainer trainer(config_, task_, factory);
      const auto first = [&] {
        for (int i = 0; i < kFirstSteps; ++i) figures.losses.push_back(trainer.step().loss);
      };
      // On a GPU the first step takes its memory from the allocator; later ones reuse that of a graph.
      if (on_gpu_) {
        figures.peak_bytes = gpu_peak_bytes_of(first);
      } else {
        first();
        figures.peak_bytes = peak_bytes_of([&] { trainer.step(); });
      }
      add_speed(trainer, figures);
      const bool ours = !factory;
      if (on_gpu_ && ours) add_idle_share(trainer, figures);
    }
    if (on_gpu_) release_gpu_memory();
    return figures;
  }

  // A GPU works on while the next step is queued, so only a window of steps has a time: run() waits at its end.
  void add_speed(train::Trainer& trainer, TrainingFigures& figures) const {
    const int window = on_gpu_ ? steps_of_a_window(trainer) : 1;
    double best = std::numeric_limits<double>::infinity();
    double all = 0.0;
    double data = 0.0;
    std::int64_t tokens = 0;
    repeat(effort_, [&] {
      tokens = 0;
      std::vector<train::StepReport> reports;
      const double seconds = seconds_of([&] { reports = trainer.run(window); });
      for (const train::StepReport& report : reports) {
        tokens += report.tokens;
        data += report.data_seconds;
      }
      best = std::min(best, seconds);
      all += seconds;
    });
    figures.tokens_per_s = static_cast<double>(tokens) / best;
    figures.data_share = data / all;
  }

  // As few as give a time worth reading: compositions at long rows take a second a step.
  static int steps_of_a_window(train::Trainer& trainer) {
    constexpr int kTried = 2;
    constexpr double kSeconds = 0.1;
    const double each = seconds_of([&] { trainer.run(kTried); }) / kTried;
    return static_cast<int>(std::clamp(kSeconds / each, 1.0 * kTried, 1.0 * kStepsOfAWindow));
  }

  // Profiling slows the host down, not the kernels: their time is compared with steps without the profiler.
  static void add_idle_share(train::Trainer& trainer, TrainingFigures& figures) {
    std::int64_t tokens = 0;
    const auto busy = gpu_busy_seconds_of([&] {
      for (const train::StepReport& report : trainer.run(kStepsOfAWindow)) tokens += report.tokens;
    });
    if (!busy) return;
    const double all = static_cast<double>(tokens) / figures.tokens_per_s;
    figures.idle_share = std::max(0.0, 1.0 - *busy / all);
  }

  static constexpr int kFirstSteps = 3;
  static constexpr int kStepsOfAWindow = 20;

  const config::LabConfig& config_;
  const tasks::Task& task_;
  Effort effort_;
  bool on_gpu_;
};

// Linux promises memory that it does not have, so what is too large for a CPU must not be tried. A GPU says
// no by itself.
class Room {
 public:
  Room(const config::LabConfig& config, const tasks::Task& task, const TrainingPlace& place)
      : left_(place.memory_bytes) {
    const bool on_cpu = place.device == config::Device::kCpu;
    if (!left_ && on_cpu) left_ = train::available_bytes(at::kCPU);
    const config::DataShape data{.vocabulary = task.info().vocabulary};
    const auto stage = config::stages(config.train).front();
    needed_ = state_bytes(config, data) + step_bytes(config, data, stage);
  }
  [[nodiscard]] bool holds(double more = 0.0) const { return !left_ || needed_ + more <= *left_; }

 private:
  std::optional<double> left_;
  double needed_ = 0.0;
};

void measure_composed(const Measurement& measurement, bool on_cpu, TrainingRow& row) {
  const model::AttentionFactory composed = [](nn::AttentionConfig c, nn::EncodingParameters p) {
    return std::make_shared<ComposedAttention>(std::move(c), std::move(p));
  };
  row.composed = measurement.run(composed);
  if (!on_cpu || !row.composed) return;
  set_baseline_onednn(true);
  const auto with = measurement.run(composed);
  row.composed_onednn = with && with->tokens_per_s > row.composed->tokens_per_s;
  if (row.composed_onednn) row.composed = with;
  set_baseline_onednn(row.composed_onednn);
}

}  // namespace

std::vector<std::string> training_encodings(std::int64_t length) {
  return {"none",
          fmt::format("learned(max_positions={})", length),
          "sinusoidal",
          "rope",
          "xpos",
          "alibi",
          "t5",
          "kerple",
          "fire",
          "relative",
          "cope(npos_max=64)",
          "rope + cope(npos_max=64)"};
}

bool cuda_found() { return torch::cuda::is_available(); }

TrainingRow measure_training(const std::string& encoding, const TrainingShape& shape,
                             const TrainingPlace& place, const Effort& effort) {
  constexpr double kOfBfloat16 = 0.02;
  constexpr double kOfTf32 = 2e-3;
  const config::LabConfig config = config_for(encoding, shape, place);
  const auto task = tasks::make_task(config.task);
  TrainingRow row{.encoding = encoding, .shape = shape};
  if (place.precision == config::TrainPrecision::kBfloat16) row.tolerance = kOfBfloat16;
  if (place.precision == config::TrainPrecision::kTf32) row.tolerance = kOfTf32;
  const bool on_cpu = place.device == config::Device::kCpu;
  set_baseline_onednn(false);
  const Room room(config, *task, place);
  const Measurement measurement(config, *task, effort);
  if (has_composition(encoding) && room.holds(composed_score_bytes(encoding, shape))) {
    measure_composed(measurement, on_cpu, row);
  }
  if (room.holds()) row.ours = measurement.run({});
  return row;
}

}  // namespace posenc::bench
