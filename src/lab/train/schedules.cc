#include "train/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/bind.h"
#include "posenc/encodings/spec.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

// Pair i stretched by factor^(2i / (d - 2)), as NTK-aware scaling does it: where a search for LongRoPE's
// factors starts.
std::vector<double> pair_factors(std::int64_t pairs, double factor) {
  std::vector<double> factors;
  for (std::int64_t i = 0; i < pairs; ++i) {
    const double share = pairs > 1 ? static_cast<double>(i) / static_cast<double>(pairs - 1) : 1.0;
    factors.push_back(std::pow(factor, share));
  }
  return factors;
}

LongRopeSchedule stretched_longrope(double factor, std::int64_t trained, std::int64_t pairs) {
  LongRopeSchedule longrope;
  longrope.short_factor = std::vector<double>(static_cast<std::size_t>(pairs), 1.0);
  longrope.long_factor = pair_factors(pairs, factor);
  longrope.original_max_position_embeddings = trained;
  longrope.factor = factor;
  return longrope;
}

bool has_rope(const config::ModelConfig& model) {
  return std::any_of(model.encoding.begin(), model.encoding.end(), [](const std::string& text) {
    const Spec spec = parse_spec(text);
    return std::any_of(spec.encodings.begin(), spec.encodings.end(),
                       [](const Encoding& e) { return std::holds_alternative<Rope>(e); });
  });
}

std::int64_t rotated_pairs(const Rope& rope, const config::ModelConfig& model) {
  const std::int64_t channels =
      rope.rotary_dim > 0 ? rope.rotary_dim : config::head_dim(model) - rope.dim_offset;
  return channels / 2;
}

bool is_longer(const EvalCase& c, const EvalSetting& setting) {
  const bool skipped = setting.longest >= 0 && c.length > setting.longest;
  return c.length > setting.train_length && !skipped;
}

}  // namespace

Schedule stretched(const std::string& name, double factor, std::int64_t trained,
                   std::int64_t pairs) {
  if (name == "linear") return LinearSchedule{.factor = factor};
  if (name == "ntk") return NtkSchedule{.factor = factor};
  if (name == "dynamic") {
    return DynamicSchedule{.factor = factor, .max_position_embeddings = trained};
  }
  if (name == "yarn") {
    YarnSchedule yarn;
    yarn.factor = factor;
    yarn.original_max_position_embeddings = trained;
    return yarn;
  }
  if (name == "longrope") return stretched_longrope(factor, trained, pairs);
  throw Error(ErrorKind::kUnknownKey, {.scope = "eval",
                                       .key = "--schedule",
                                       .rule = "must be a known name",
                                       .value = "'" + name + "'",
                                       .hint = suggestion(name, config::kStretchSchedules)});
}

config::ModelConfig under_schedule(config::ModelConfig model, const std::string& name,
                                   double factor, std::int64_t trained) {
  if (!has_rope(model)) {
    throw Error(ErrorKind::kConflict, {.scope = "eval",
                                       .key = "--schedule",
                                       .rule = "needs a model with rope",
                                       .value = model.encoding.front(),
                                       .hint = ""});
  }
  for (std::string& text : model.encoding) {
    Spec spec = parse_spec(text);
    for (Encoding& e : spec.encodings) {
      auto* rope = std::get_if<Rope>(&e);
      if (rope == nullptr) continue;
      rope->schedule = stretched(name, factor, trained, rotated_pairs(*rope, model));
    }
    text = to_text(spec);
  }
  return model;
}

std::vector<std::string> schedules_of(const config::LabConfig& config) {
  if (!has_rope(config.model)) return {};
  return config::stretch_schedules(config.eval);
}

std::string check_schedules(const config::LabConfig& config) {
  const std::vector<std::string> asked = config::stretch_schedules(config.eval);
  if (asked.empty()) return "";
  if (!has_rope(config.model)) {
    return fmt::format("eval.schedules ({}) has no effect: model.encoding has no rope",
                       fmt::join(asked, ", "));
  }
  constexpr double kAnyFactor = 2.0;
  for (const std::string& name : asked) {
    validate(under_schedule(config.model, name, kAnyFactor, train_length(config.train)), "eval");
  }
  return "";
}

std::vector<ScheduledCase> scheduled_cases(const std::vector<EvalCase>& cases,
                                           const EvalSetting& setting,
                                           const std::vector<std::string>& schedules,
                                           OwnSchedule own) {
  std::vector<ScheduledCase> all;
  for (const EvalCase& c : cases) {
    const bool under_others = is_longer(c, setting) && !schedules.empty();
    if (!under_others || own == OwnSchedule::kKept) all.push_back({c, ""});
    if (!under_others) continue;
    for (const std::string& schedule : schedules) all.push_back({c, schedule});
  }
  return all;
}

namespace {

model::Transformer scheduled_model(const config::LabConfig& config, const tasks::Task& task,
                                   const ScheduledCase& c, const EvalSetting& setting) {
  config::LabConfig changed = config;
  if (!c.schedule.empty()) {
    changed.model = under_schedule(config.model, c.schedule, factor_of(c.condition.length, setting),
                                   setting.train_length);
  }
  validate(changed.model, "eval");
  return model::Transformer(changed.model, model_context(changed, task));
}

}  // namespace

model::Transformer model_for(const config::LabConfig& config, const tasks::Task& task,
                             const runs::Loaded& checkpoint, const ScheduledCase& c,
                             const EvalSetting& setting) {
  model::Transformer model = scheduled_model(config, task, c, setting);
  Trainer::load_weights(model, checkpoint);
  model->to(setting.device);
  return model;
}

model::Transformer model_for(const config::LabConfig& config, const tasks::Task& task,
                             const model::Transformer& weights, const ScheduledCase& c,
                             const EvalSetting& setting) {
  model::Transformer model = scheduled_model(config, task, c, setting);
  model->to(setting.device);
  Trainer::copy_weights(model, weights);
  return model;
}

void name_schedule(EvalRow& row, const std::string& schedule) {
  row.schedule = schedule;
  row.tallies.name = runs::condition_name(row.axis, row.length, schedule);
}

std::optional<std::vector<EvalRow>> evaluate_scheduled(
    const ModelFor& model_of, const tasks::Task& task, const EvalSetting& setting,
    const std::vector<ScheduledCase>& cases, const std::function<void(const EvalRow&)>& done) {
  std::vector<EvalRow> rows;
  for (const ScheduledCase& c : cases) {
    model::Transformer model = model_of(c);
    auto row = evaluate_row(model, task, c.condition, setting);
    if (!row) return std::nullopt;
    name_schedule(*row, c.schedule);
    if (done) done(*row);
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace posenc::train
