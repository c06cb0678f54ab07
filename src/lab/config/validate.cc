#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "config/model_config.h"
#include "config/train_config.h"
#include "core/bind.h"
#include "posenc/core/error.h"
#include "posenc/encodings/spec.h"

namespace posenc::config {
namespace {

Error conflict(const std::string& scope, const std::string& key, const std::string& rule,
               const std::string& value = "", const std::string& hint = "") {
  return {ErrorKind::kConflict,
          {.scope = scope, .key = key, .rule = rule, .value = value, .hint = hint}};
}

// Linear attention has no row of scores, and the lab's rotates queries and keys by their positions.
void check_linear_encodings(const Spec& spec, const std::string& scope) {
  for (const Encoding& e : attention_part(spec).encodings) {
    if (!traits(e).linear_attention) {
      throw conflict(scope, "model.encoding", "does not go with linear attention",
                     std::string(traits(e).name), "use rope, xpos, sinusoidal or learned");
    }
    if (!is_rotary(e) || rotates_by_position(e)) continue;
    throw conflict(scope, "model.encoding",
                   "must rotate queries and keys by positions alone with model.attention=linear",
                   to_text(Spec{{e}}),
                   "leave angles and values of rope out, or set model.attention=softmax");
  }
}

// A layer's encodings must fit its heads, and all layers must agree on what is added to the input.
void check_encodings(const ModelConfig& model, const std::string& scope) {
  const ModelShape shape{.head_dim = head_dim(model), .heads = model.heads, .model_dim = model.dim};
  const Spec first = input_part(parse_spec(model.encoding.front()));
  for (const std::string& text : model.encoding) {
    const Spec spec = parse_spec(text);
    validate(spec, shape);
    if (input_part(spec) != first) {
      throw conflict(scope, "model.encoding",
                     "must name the same encodings of the input in every entry", text,
                     "what is added to the input is not a layer's own");
    }
    if (model.attention == AttentionKind::kLinear) check_linear_encodings(spec, scope);
  }
}

void check_chunks(const TrainConfig& train, const std::string& scope) {
  if (train.reduction != Reduction::kDeterministic) return;
  if ((train.chunks & (train.chunks - 1)) != 0) {
    throw conflict(scope, "train.chunks", "must be a power of two", std::to_string(train.chunks));
  }
  for (const Stage& stage : stages(train)) {
    const std::int64_t rows = stage.batch / train.accumulate;
    if (rows % train.chunks == 0) continue;
    throw conflict(scope, "train.chunks",
                   fmt::format("must divide the {} samples that are computed together (train.batch "
                               "/ train.accumulate)",
                               rows),
                   std::to_string(train.chunks), "use a smaller power of two or another batch");
  }
}

void check_schedules(const EvalConfig& eval, const std::string& scope) {
  std::set<std::string> seen;
  for (const std::string& name : stretch_schedules(eval)) {
    const bool known = std::find(kStretchSchedules.begin(), kStretchSchedules.end(), name) !=
                       kStretchSchedules.end();
    if (!known) {
      throw Error(ErrorKind::kUnknownKey, {.scope = scope,
                                           .key = "eval.schedules",
                                           .rule = "must be schedules that can be stretched",
                                           .value = "'" + name + "'",
                                           .hint = suggestion(name, kStretchSchedules)});
    }
    if (seen.insert(name).second) continue;
    throw conflict(scope, "eval.schedules", "must name each schedule once", "'" + name + "' twice");
  }
}

}  // namespace

const std::string& layer_encoding(const ModelConfig& model, std::int64_t layer) {
  return model.encoding[static_cast<std::size_t>(layer) % model.encoding.size()];
}
std::int64_t head_dim(const ModelConfig& model) {
  return model.head_dim > 0 ? model.head_dim : model.dim / model.heads;
}
std::int64_t kv_heads(const ModelConfig& model) {
  return model.kv_heads > 0 ? model.kv_heads : model.heads;
}

double norm_eps(const ModelConfig& model) {
  if (model.norm_eps > 0.0) return model.norm_eps;
  return model.norm_kind == NormKind::kLayer ? 1e-5 : 1e-6;
}
double rms_eps(const ModelConfig& model) { return model.norm_eps > 0.0 ? model.norm_eps : 1e-6; }
bool qkv_bias(const ModelConfig& model) {
  if (model.attention_bias == AttentionBias::kAsBias) return model.bias;
  return model.attention_bias != AttentionBias::kNone;
}
bool out_bias(const ModelConfig& model) {
  if (model.attention_bias == AttentionBias::kAsBias) return model.bias;
  return model.attention_bias == AttentionBias::kAll;
}
bool mlp_bias(const ModelConfig& model) {
  if (model.mlp_bias == MlpBias::kAsBias) return model.bias;
  return model.mlp_bias == MlpBias::kAll;
}
std::int64_t mlp_width(const ModelConfig& model) {
  return std::llround(model.mlp_ratio * static_cast<double>(model.dim));
}
std::int64_t vocabulary(const ModelConfig& model, std::int64_t of_task) {
  if (model.vocabulary == 0) return of_task;
  if (model.vocabulary >= of_task) return model.vocabulary;
  throw conflict("model", "vocabulary",
                 fmt::format("must be at least {}, the tokens of the task", of_task),
                 std::to_string(model.vocabulary),
                 "set it to 0, or use a task or tokenizer with fewer tokens");
}

std::int64_t longest_length(const ModelConfig& model) {
  std::int64_t longest = -1;
  for (const Encoding& e : parse_spec(model.encoding.front()).encodings) {
    const auto* learned = std::get_if<Learned>(&e);
    if (learned == nullptr) continue;
    longest = longest < 0 ? learned->max_positions : std::min(longest, learned->max_positions);
  }
  return longest;
}

void validate(const ModelConfig& model, const std::string& scope) {
  if (model.head_dim == 0 && model.dim % model.heads != 0) {
    throw conflict(scope, "model.heads", fmt::format("must divide model.dim ({})", model.dim),
                   std::to_string(model.heads), "or set model.head_dim");
  }
  if (mlp_width(model) < 1) {
    throw conflict(
        scope, "model.mlp_ratio",
        fmt::format("must make a hidden layer of at least one unit from model.dim ({})", model.dim),
        fmt::format("{}", model.mlp_ratio));
  }
  if (model.heads % kv_heads(model) != 0) {
    throw conflict(scope, "model.kv_heads",
                   fmt::format("must divide model.heads ({})", model.heads),
                   std::to_string(model.kv_heads));
  }
  if (model.attention == AttentionKind::kLinear && model.window >= 0) {
    throw conflict(scope, "model.window", "needs softmax attention", std::to_string(model.window));
  }
  if (model.attention == AttentionKind::kLinear && model.attention_dropout > 0.0) {
    throw conflict(scope, "model.attention_dropout", "needs softmax attention",
                   fmt::format("{}", model.attention_dropout));
  }
  if (model.attention == AttentionKind::kLinear && model.qk_norm) {
    throw conflict(scope, "model.qk_norm", "needs softmax attention", "true");
  }
  if (model.attention == AttentionKind::kLinear && model.score_scaling != ScoreScaling::kNone) {
    throw conflict(scope, "model.score_scaling", "needs softmax attention",
                   std::string(enum_name(model.score_scaling)));
  }
  if (model.parallel && model.norm == Norm::kPost) {
    throw conflict(scope, "model.parallel", "needs model.norm: pre", "true",
                   "set model.norm=pre or model.parallel=false");
  }
  check_encodings(model, scope);
}

std::vector<Stage> stages(const TrainConfig& train) {
  if (!train.stages.empty()) return train.stages;
  return {{.length = train.length, .batch = train.batch, .steps = train.steps}};
}
std::int64_t total_steps(const TrainConfig& train) {
  std::int64_t steps = 0;
  for (const Stage& stage : stages(train)) steps += stage.steps;
  return steps;
}
std::int64_t train_length(const TrainConfig& train) {
  std::int64_t longest = 0;
  for (const Stage& stage : stages(train)) longest = std::max(longest, stage.length);
  return longest;
}

std::vector<std::string> stretch_schedules(const EvalConfig& eval) {
  if (eval.schedules == EvalConfig{}.schedules) return {};
  return eval.schedules;
}

void validate(const EvalConfig& eval, const std::string& scope) {
  check_schedules(eval, scope);
  if (!eval.conditions.empty() && eval.axes != EvalConfig{}.axes) {
    throw conflict(scope, "eval.axes", "is not read where eval.conditions lists axes and lengths",
                   fmt::format("{}", fmt::join(eval.axes, ", ")),
                   "add conditions, or set eval.conditions=[]");
  }
  const bool factors = eval.factors != EvalConfig{}.factors;
  if (!eval.conditions.empty() && (factors || eval.lengths != EvalConfig{}.lengths)) {
    throw conflict(scope, factors ? "eval.factors" : "eval.lengths",
                   "is not read where eval.conditions lists axes and lengths",
                   fmt::format("{}", fmt::join(factors ? eval.factors : eval.lengths, ", ")),
                   "add conditions, or set eval.conditions=[]");
  }
  const bool by_factors =
      std::find(eval.lengths.begin(), eval.lengths.end(), 0) != eval.lengths.end();
  if (!by_factors || eval.lengths.size() == 1) return;
  throw conflict(scope, "eval.lengths", "must not mix 0 with other lengths",
                 fmt::format("{}", fmt::join(eval.lengths, ", ")), "0 alone means eval.factors");
}

void validate(const TrainConfig& train, const std::string& scope) {
  if (train.positions != PositionPolicy::kAsIs && train.position_range < train_length(train)) {
    throw conflict(scope, "train.position_range",
                   fmt::format("must be at least the length {}", train_length(train)),
                   std::to_string(train.position_range));
  }
  for (const Stage& stage : stages(train)) {
    if (stage.batch % train.accumulate == 0) continue;
    throw conflict(scope, "train.accumulate",
                   fmt::format("must divide the batch ({})", stage.batch),
                   std::to_string(train.accumulate));
  }
  check_chunks(train, scope);
  if (train.eval_every == 0 && (train.patience > 0 || train.stop_at > 0.0)) {
    const bool patience = train.patience > 0;
    throw conflict(scope, patience ? "train.patience" : "train.stop_at",
                   "needs evaluations during the training",
                   patience ? std::to_string(train.patience) : fmt::format("{}", train.stop_at),
                   "set train.eval_every");
  }
  if (train.precision != TrainPrecision::kFloat32 && train.device == Device::kCpu) {
    throw conflict(scope, "train.precision", "needs train.device: cuda",
                   std::string(enum_name(train.precision)), "use float32 on the CPU");
  }
  if (train.min_lr > train.lr) {
    throw conflict(scope, "train.min_lr", "must not exceed train.lr",
                   fmt::format("{}", train.min_lr));
  }
}

}  // namespace posenc::config
