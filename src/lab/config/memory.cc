#include "config/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc::config {
namespace {

constexpr double kFloat = 4.0;
// A token as int32 with its target in the batch, and as int64 with place and target in tensors.
constexpr double kSampleBytes = 2 * 4 + 3 * 8;
// Rows and bytes of an answer that Task::chance works on (src/lab/tasks/statistics.cc).
constexpr double kChanceRows = 256;
constexpr double kChanceRowsAtOnce = 64;
constexpr double kAnswerBytes = 16;

// Widths of a layer, in numbers per token.
struct Widths {
  double dim, q, kv, mlp;
  double mlp_parts;  // tensors of the width of the feed-forward part
};

Widths widths(const ModelConfig& model) {
  const auto d = static_cast<double>(head_dim(model));
  const auto dim = static_cast<double>(model.dim);
  return {.dim = dim,
          .q = d * static_cast<double>(model.heads),
          .kv = d * static_cast<double>(kv_heads(model)),
          .mlp = static_cast<double>(mlp_width(model)),
          .mlp_parts = model.mlp == Mlp::kSwiglu ? 4.0 : 2.0};
}

double encoding_count(const ModelConfig& model) {
  const ModelShape shape{.head_dim = head_dim(model), .heads = model.heads, .model_dim = model.dim};
  double count = 0.0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const Spec spec = parse_spec(layer_encoding(model, layer));
    for (const SpecParameter& p : parameters(spec, shape)) {
      if (layer > 0 && traits(spec.encodings[p.encoding]).site == Site::kInput) continue;  // once
      double numbers = 1.0;
      for (const std::int64_t size : p.info.shape) numbers *= static_cast<double>(size);
      count += numbers;
    }
  }
  return count;
}

double layer_count(const ModelConfig& model) {
  const Widths w = widths(model);
  const double matrices = model.mlp == Mlp::kSwiglu ? 3.0 : 2.0;
  return w.dim * (2 * w.q + 2 * w.kv) + matrices * w.dim * w.mlp + 4 * w.dim;
}

// Saved for the backward pass: both norms' inputs and outputs, q, k, v, attention's output and its copy with
// heads last, and the feed-forward part. Dropout keeps its masks and results.
double saved_numbers(const ModelConfig& model) {
  const Widths w = widths(model);
  const double dropout = model.dropout > 0.0 ? 2.5 * w.dim : 0.0;
  return 4 * w.dim + 3 * w.q + 2 * w.kv + w.mlp_parts * w.mlp + dropout;
}

// Alive at the same time without a backward pass: of attention or of the feed-forward part.
double live_numbers(const ModelConfig& model) {
  const Widths w = widths(model);
  return std::max(3 * w.dim + 3 * w.q + 2 * w.kv, 4 * w.dim + w.mlp_parts * w.mlp);
}

double logit_numbers(const ModelConfig& model, const DataShape& data) {
  return 3.0 * static_cast<double>(std::max(data.vocabulary, model.vocabulary)) +
         2.0 * static_cast<double>(model.dim);
}

std::int64_t eval_rows(const EvalConfig& eval, std::int64_t length) {
  const std::int64_t fit = std::max<std::int64_t>(1, eval.tokens_per_batch / length);
  return std::min(fit, eval.samples);
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  for (; bytes >= 1000.0 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000.0;
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

Error too_large(const std::string& key, const std::string& what, double needed, double available,
                const std::string& hint) {
  return {ErrorKind::kResource,
          {.scope = "memory",
           .key = key,
           .rule = fmt::format("is too large for this machine: {} about {}, and {} are available",
                               what, bytes_text(needed), bytes_text(available)),
           .value = "",
           .hint = hint}};
}

void require_state(const LabConfig& config, const DataShape& data, double needed,
                   double available) {
  if (needed <= available) return;
  const double all = parameter_count(config.model, data.vocabulary);
  const bool tables = encoding_count(config.model) > all / 2;
  throw too_large(tables ? "model.encoding" : "model.dim",
                  fmt::format("{:.3g} parameters with the optimizer's state need", all), needed,
                  available,
                  tables ? "use smaller tables of positions" : "lower model.dim or model.layers");
}

void require_steps(const LabConfig& config, const DataShape& data, double state, double available) {
  const bool staged = !config.train.stages.empty();
  for (const Stage& stage : stages(config.train)) {
    const double needed = state + step_bytes(config, data, stage);
    if (needed <= available) continue;
    const std::int64_t rows = stage.batch / config.train.accumulate;
    const char* field = rows > 1 ? "batch" : "length";
    throw too_large(
        staged ? fmt::format("train.stages.{}", field) : fmt::format("train.{}", field),
        fmt::format("{} x {} positions at once need", rows, stage.length), needed, available,
        rows > 1 ? "lower it, or raise train.accumulate" : "lower it, or lower model.dim");
  }
}

void require_lengths(const LabConfig& config, const DataShape& data,
                     std::span<const std::int64_t> lengths, double state, double available) {
  for (const std::int64_t length : lengths) {
    const double needed = state + evaluation_bytes(config, data, length);
    if (needed <= available) continue;
    const std::int64_t rows = eval_rows(config.eval, length);
    const bool by_length = config.eval.lengths.front() > 0;
    const bool listed = !config.eval.conditions.empty();
    const std::string key = rows > 1    ? "eval.tokens_per_batch"
                            : listed    ? "eval.conditions"
                            : by_length ? "eval.lengths"
                                        : "eval.factors";
    throw too_large(key, fmt::format("evaluating {} x {} positions at once needs", rows, length),
                    needed, available, rows > 1 ? "lower it" : "use shorter lengths");
  }
}

}  // namespace

double parameter_count(const ModelConfig& model, std::int64_t vocabulary) {
  const double embeddings = static_cast<double>(std::max(vocabulary, model.vocabulary)) *
                            static_cast<double>(model.dim) * (model.tied ? 1.0 : 2.0);
  return embeddings + static_cast<double>(model.layers) * layer_count(model) +
         encoding_count(model);
}

double state_bytes(const LabConfig& config, const DataShape& data, std::int64_t processes) {
  const double whole = 3.0;  // weights, gradient, decay
  // The mean; Adam's square and the root of it.
  const double state = config.train.optimizer == OptimizerKind::kSgd ? 1.0 : 3.0;
  const double parts = config.train.shard_optimizer ? static_cast<double>(processes) : 1.0;
  return kFloat * (whole + state / parts) * parameter_count(config.model, data.vocabulary);
}

double step_bytes(const LabConfig& config, const DataShape& data, const Stage& stage) {
  const Widths w = widths(config.model);
  const double all = static_cast<double>(stage.batch) * static_cast<double>(stage.length);
  const double tokens = all / static_cast<double>(config.train.accumulate);
  const double half = config.train.precision == TrainPrecision::kBfloat16 ? 0.5 : 1.0;
  const auto layers = static_cast<double>(config.model.layers);
  // A block that is computed again keeps its input: the sum of the residual and its last branch.
  const double saved = config.train.checkpoint_blocks
                           ? 2 * w.dim * layers + saved_numbers(config.model)
                           : layers * saved_numbers(config.model);
  const double per_token = saved + 3 * w.dim + 2 * w.mlp;
  return half * kFloat * tokens *
             (per_token + data.scored_share * logit_numbers(config.model, data)) +
         kSampleBytes * all;
}

double evaluation_bytes(const LabConfig& config, const DataShape& data, std::int64_t length) {
  const double one = static_cast<double>(length);
  const double tokens = one * static_cast<double>(eval_rows(config.eval, length));
  const double forward = kFloat * tokens * live_numbers(config.model) + kSampleBytes * tokens +
                         kFloat * tokens * data.scored_share * logit_numbers(config.model, data);
  const double chance =
      kChanceRowsAtOnce * 8.0 * one + kChanceRows * kAnswerBytes * data.scored_share * one;
  return std::max(forward, chance);
}

void require_memory(const LabConfig& config, const DataShape& data,
                    std::span<const std::int64_t> lengths, double available, Work work,
                    std::int64_t processes) {
  const double weights = kFloat * parameter_count(config.model, data.vocabulary);
  const double state = work == Work::kTraining ? state_bytes(config, data, processes) : weights;
  require_state(config, data, state, available);
  if (work == Work::kTraining) require_steps(config, data, state, available);
  require_lengths(config, data, lengths, state, available);
}

}  // namespace posenc::config
