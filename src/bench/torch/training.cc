#include "bench/training.h"

#include <cmath>

#include "bench/baseline.h"
#include "bench/memory.h"
#include "bench/torch/compositions.h"
#include "lab/trainer.h"

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
    prepare(q.size(2));
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
  void prepare(std::int64_t tokens) {
    if (distances_ && distances_->distance.size(0) == tokens) return;
    distances_.emplace(tokens, spec_);
    ropes_ = rope_tables(spec_, shape_, tokens, at::kFloat);
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

experiment::LabConfig config_for(const std::string& encoding, const TrainingShape& shape) {
  experiment::LabConfig config;
  config.task = tasks::FlipFlop{};
  config.model.encoding = {encoding};
  config.model.layers = shape.layers;
  config.model.dim = shape.dim;
  config.model.heads = shape.heads;
  config.train.length = shape.length;
  config.train.batch = shape.batch;
  config.train.steps = 1000000;
  return config;
}

struct Figures {
  std::vector<double> losses;
  double tokens_per_s = 0.0;
  double data_share = 0.0;
  std::optional<std::int64_t> peak_bytes;
};

Figures measure(const experiment::LabConfig& config, const tasks::Task& task,
                const model::AttentionFactory& factory, const Effort& effort) {
  lab::Trainer trainer(config, task, factory);
  Figures figures;
  for (int i = 0; i < 3; ++i) figures.losses.push_back(trainer.step().loss);
  figures.peak_bytes = peak_bytes_of([&] { trainer.step(); });
  double best = 1e9;
  double data = 0.0;
  double all = 0.0;
  std::int64_t tokens = 0;
  repeat(effort, [&] {
    const lab::StepReport report = trainer.step();
    best = std::min(best, report.seconds);
    data += report.data_seconds;
    all += report.seconds;
    tokens = report.tokens;
  });
  figures.tokens_per_s = static_cast<double>(tokens) / best;
  figures.data_share = data / all;
  return figures;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::abs(b[i]));
  }
  return worst;
}

}  // namespace

std::vector<std::string> training_encodings() {
  return {"none",
          "sinusoidal",
          "rope",
          "alibi",
          "t5",
          "kerple",
          "cope(npos_max=64)",
          "rope + cope(npos_max=64)"};
}

TrainingRow measure_training(const std::string& encoding, const TrainingShape& shape,
                             const Effort& effort) {
  const experiment::LabConfig config = config_for(encoding, shape);
  const auto task = tasks::make_task(config.task);
  const model::AttentionFactory composed = [](nn::AttentionConfig c, nn::EncodingParameters p) {
    return std::make_shared<ComposedAttention>(std::move(c), std::move(p));
  };
  TrainingRow row;
  row.encoding = encoding;
  set_baseline_onednn(true);
  const Figures with = measure(config, *task, composed, effort);
  set_baseline_onednn(false);
  const Figures without = measure(config, *task, composed, effort);
  row.composed_onednn = with.tokens_per_s > without.tokens_per_s;
  const Figures& faster = row.composed_onednn ? with : without;
  set_baseline_onednn(row.composed_onednn);
  const Figures ours = measure(config, *task, {}, effort);
  row.tokens_per_s = ours.tokens_per_s;
  row.data_share = ours.data_share;
  row.peak_bytes = ours.peak_bytes;
  row.composed_tokens_per_s = faster.tokens_per_s;
  row.composed_peak_bytes = faster.peak_bytes;
  row.loss_difference = difference(ours.losses, faster.losses);
  return row;
}

}  // namespace posenc::bench
