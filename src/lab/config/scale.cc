#include "config/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "core/bind.h"
#include "posenc/core/error.h"

namespace posenc::config {
namespace {

constexpr double kFloatBytes = 4.0;
constexpr double kHalfBytes = 2.0;
constexpr double kBucketBytes = 25e6;  // bytes

Error option_error(const std::string& option, const std::string& rule, const std::string& value,
                   const std::string& hint) {
  return {ErrorKind::kOutOfRange,
          {.scope = "plan", .key = option, .rule = rule, .value = value, .hint = hint}};
}

Stage largest_stage(const TrainConfig& train) {
  const std::vector<Stage> all = stages(train);
  return *std::max_element(all.begin(), all.end(), [](const Stage& a, const Stage& b) {
    return a.batch * a.length < b.batch * b.length;
  });
}

double total_tokens(const TrainConfig& train) {
  double tokens = 0.0;
  for (const Stage& stage : stages(train)) {
    tokens += static_cast<double>(stage.steps) * static_cast<double>(stage.batch) *
              static_cast<double>(stage.length);
  }
  return tokens;
}

Stage part_of_one_gpu(const LabConfig& config, const Cluster& cluster) {
  const std::int64_t parts = cluster.gpus * config.train.accumulate;
  for (const Stage& stage : stages(config.train)) {
    if (stage.batch % parts == 0) continue;
    const std::int64_t near = std::max<std::int64_t>(1, stage.batch / parts) * parts;
    throw option_error(
        "--gpus",
        fmt::format(
            "must divide {}, which is {}{}",
            config.train.stages.empty() ? "train.batch" : "every stage's batch", stage.batch,
            config.train.accumulate > 1 ? fmt::format(" in {} parts", config.train.accumulate)
                                        : ""),
        std::to_string(cluster.gpus),
        config.train.stages.empty() ? fmt::format("--set train.batch={}", near)
                                    : fmt::format("give the stage a batch of {}", near));
  }
  Stage stage = largest_stage(config.train);
  stage.batch /= cluster.gpus;
  return stage;
}

double optimizer_bytes(const TrainConfig& train, double parameters) {
  if (train.optimizer != OptimizerKind::kSgd) return 2 * kFloatBytes * parameters;
  return train.momentum > 0.0 ? kFloatBytes * parameters : 0.0;
}

// With and without train.checkpoint_blocks, whichever the config has.
double activation_bytes(LabConfig config, const DataShape& data, const Stage& stage,
                        bool checkpointed) {
  config.train.checkpoint_blocks = checkpointed;
  return step_bytes(config, data, stage);
}

// Of the forward and the backward pass: 2 and 4 per parameter of a product, and attention under a causal mask.
double flops(const ModelConfig& model, const DataShape& data, std::int64_t length) {
  const auto dim = static_cast<double>(model.dim);
  const double lookup = model.tied ? 0.0 : static_cast<double>(data.vocabulary) * dim;
  const double products = parameter_count(model, data.vocabulary) - lookup;
  const auto heads = static_cast<double>(model.heads * head_dim(model));
  return 6.0 * products +
         6.0 * static_cast<double>(model.layers) * heads * static_cast<double>(length);
}

// What all variants share.
struct Setting {
  const LabConfig& config;
  const Cluster& cluster;
  const ScalePlan& plan;
  double tokens;  // of one GPU in a step
};

double compute_seconds(const Setting& s, bool checkpointed) {
  const double again = checkpointed ? 4.0 / 3.0 : 1.0;
  const double rate = s.cluster.tokens_per_second.value_or(s.cluster.share * s.cluster.peak /
                                                           s.plan.flops_per_token);
  return again * s.tokens / rate;
}

void set_network(const Setting& s, ScaleVariant& variant) {
  const auto n = static_cast<double>(s.cluster.gpus);
  const double part = (n - 1.0) / n;
  const double rate = s.cluster.network * s.cluster.network_share;
  const double reduced = 2.0 * part * s.plan.gradients;
  const double gathered = variant.sharded ? part * s.plan.weights : 0.0;
  const double hops = 2.0 * std::ceil(std::log2(n)) * s.cluster.latency;
  const double buckets = std::max(1.0, std::ceil(s.plan.gradients / kBucketBytes));
  const double reducing = reduced / rate + (n > 1.0 ? buckets * hops : 0.0);
  const double gathering = gathered / rate + (variant.sharded && n > 1.0 ? hops : 0.0);
  const double backward = variant.compute * (variant.checkpointed ? 3.0 / 4.0 : 2.0 / 3.0) /
                          static_cast<double>(s.config.train.accumulate);
  variant.wire = reduced + gathered;
  variant.network = reducing + gathering;
  variant.exposed = std::max(reducing / buckets, reducing - backward) + gathering;
}

ScaleVariant variant_of(const Setting& s, bool sharded, bool checkpointed) {
  ScaleVariant variant{.sharded = sharded, .checkpointed = checkpointed};
  const ScalePlan& plan = s.plan;
  variant.memory = plan.weights + plan.rounded_weights + plan.gradients +
                   (sharded ? plan.sharded_optimizer : plan.optimizer) +
                   (checkpointed ? plan.checkpointed_activations : plan.activations);
  variant.fits = variant.memory <= s.cluster.memory;
  variant.compute = compute_seconds(s, checkpointed);
  set_network(s, variant);
  variant.step = variant.compute + variant.exposed;
  variant.efficiency = variant.compute / variant.step;
  variant.tokens_per_second = s.tokens * static_cast<double>(s.cluster.gpus) / variant.step;
  variant.seconds = total_tokens(s.config.train) / variant.tokens_per_second;
  return variant;
}

Value variant_value(const ScaleVariant& v) {
  return {Value::Data(Value::Map{{"shard_optimizer", write_field(v.sharded)},
                                 {"checkpoint_blocks", write_field(v.checkpointed)},
                                 {"memory_bytes", write_field(v.memory)},
                                 {"fits", write_field(v.fits)},
                                 {"wire_bytes", write_field(v.wire)},
                                 {"compute_seconds", write_field(v.compute)},
                                 {"network_seconds", write_field(v.network)},
                                 {"exposed_seconds", write_field(v.exposed)},
                                 {"step_seconds", write_field(v.step)},
                                 {"efficiency", write_field(v.efficiency)},
                                 {"tokens_per_second", write_field(v.tokens_per_second)},
                                 {"seconds", write_field(v.seconds)}})};
}

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 6> kUnits = {{{"MB", 1e6},
                                         {"GB", 1e9},
                                         {"TB", 1e12},
                                         {"Mbit", 1e6 / 8},
                                         {"Gbit", 1e9 / 8},
                                         {"Tbit", 1e12 / 8}}};
constexpr std::size_t kByteUnits = 3;  // the first of them

// A number above 0 and one of the units; nothing where the text is something else.
std::optional<double> amount_in(const std::string& text, std::span<const Unit> units) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0.0) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& known : units) {
    if (unit == known.name) return number * known.bytes;
  }
  return std::nullopt;
}

}  // namespace

ScalePlan plan_scale(const LabConfig& config, const DataShape& data, const Cluster& cluster) {
  const Stage stage = part_of_one_gpu(config, cluster);
  ScalePlan plan;
  plan.parameters = parameter_count(config.model, data.vocabulary);
  plan.batch = stage.batch * cluster.gpus;
  plan.length = stage.length;
  plan.flops_per_token = flops(config.model, data, stage.length);
  plan.weights = plan.gradients = kFloatBytes * plan.parameters;
  const bool rounded = config.train.precision == TrainPrecision::kBfloat16;
  plan.rounded_weights = rounded ? kHalfBytes * plan.parameters : 0.0;
  plan.optimizer = optimizer_bytes(config.train, plan.parameters);
  plan.sharded_optimizer = plan.optimizer / static_cast<double>(cluster.gpus);
  plan.activations = activation_bytes(config, data, stage, false);
  plan.checkpointed_activations = activation_bytes(config, data, stage, true);
  const Setting setting{config, cluster, plan,
                        static_cast<double>(stage.batch) * static_cast<double>(stage.length)};
  for (std::size_t i = 0; i < plan.variants.size(); ++i) {
    plan.variants[i] = variant_of(setting, (i & 1U) != 0, (i & 2U) != 0);
  }
  return plan;
}

Value scale_value(const ScalePlan& plan, const Cluster& cluster) {
  Value::List variants;
  for (const ScaleVariant& variant : plan.variants) variants.push_back(variant_value(variant));
  return {Value::Data(
      Value::Map{{"parameters", write_field(plan.parameters)},
                 {"gpus", write_field(cluster.gpus)},
                 {"batch", write_field(plan.batch)},
                 {"length", write_field(plan.length)},
                 {"flops_per_token", write_field(plan.flops_per_token)},
                 {"network_bytes_per_second", write_field(cluster.network)},
                 {"network_share", write_field(cluster.network_share)},
                 {"latency_seconds", write_field(cluster.latency)},
                 {"gpu_bytes", write_field(cluster.memory)},
                 {"peak_flops", write_field(cluster.peak)},
                 {"share", write_field(cluster.share)},
                 {"tokens_per_second_of_a_gpu", write_field(cluster.tokens_per_second)},
                 {"weight_bytes", write_field(plan.weights)},
                 {"rounded_weight_bytes", write_field(plan.rounded_weights)},
                 {"gradient_bytes", write_field(plan.gradients)},
                 {"optimizer_bytes", write_field(plan.optimizer)},
                 {"sharded_optimizer_bytes", write_field(plan.sharded_optimizer)},
                 {"activation_bytes", write_field(plan.activations)},
                 {"checkpointed_activation_bytes", write_field(plan.checkpointed_activations)},
                 {"variants", {Value::Data(std::move(variants))}}})};
}

double parse_amount(const std::string& text, const std::string& option) {
  if (const auto amount = amount_in(text, kUnits)) return *amount;
  throw option_error(option, "must be a number above 0 and Mbit, Gbit, Tbit, MB, GB or TB",
                     "'" + text + "'", "for example 400Gbit");
}

double parse_bytes(const std::string& text, const std::string& option) {
  if (const auto bytes = amount_in(text, std::span(kUnits).first(kByteUnits))) return *bytes;
  throw option_error(option, "must be a number above 0 and MB, GB or TB", "'" + text + "'",
                     "for example 80GB");
}

}  // namespace posenc::config
