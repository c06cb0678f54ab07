#include "train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bind.h"
#include "model/interruptible.h"
#include "train/collector.h"
#include "train/free_running.h"
#include "train/mixed_precision.h"
#include "train/samples.h"

namespace posenc::train {
namespace {

Scores score(model::Transformer& model, const Samples& samples, const EvalSetting& setting,
             const at::Tensor& positions) {
  const MixedPrecision mixed(setting.train.precision);
  const at::Tensor hidden = model->hidden(samples.tokens, positions).flatten(0, 1);
  const at::Tensor logits =
      model->logits(hidden.index_select(0, samples.places)).to(at::kFloat).log_softmax(-1);
  const at::Tensor loss = logits.gather(1, samples.targets.unsqueeze(1)).squeeze(1).neg();
  // The largest of logits that are NaN is token 0, which is no answer.
  const at::Tensor right =
      logits.argmax(-1).eq(samples.targets).logical_and(loss.isnan().logical_not());
  return {right.to(at::kCPU), loss.to(at::kDouble).to(at::kCPU)};
}

at::Tensor positions_at(const EvalSetting& setting, std::int64_t length, std::int64_t row) {
  if (setting.train.positions != config::PositionPolicy::kSubset) return {};
  return training_positions(setting.train, length, static_cast<std::uint64_t>(setting.config.seed),
                            row);
}

const tasks::Axis& find_axis(const std::vector<tasks::Axis>& axes, const std::string& name,
                             const tasks::Task& task, const char* field = "eval.axes") {
  std::vector<std::string_view> names;
  for (const tasks::Axis& axis : axes) {
    if (axis.name == name) return axis;
    names.emplace_back(axis.name);
  }
  throw Error(ErrorKind::kUnknownKey, {.scope = "config",
                                       .key = field,
                                       .rule = "must be axes of " + task.info().name,
                                       .value = "'" + name + "'",
                                       .hint = suggestion(name, names)});
}

// The row's names and whatever follows from them.
EvalRow named_row(const tasks::Task& task, const EvalCase& c, const EvalSetting& setting) {
  const std::vector<tasks::Axis> axes = task.axes();
  EvalRow row;
  row.axis = c.axis;
  row.length = c.length;
  row.factor = factor_of(c.length, setting);
  row.beyond_training =
      runs::beyond_training(setting.train_length, c.length, find_axis(axes, c.axis, task).shifted);
  return row;
}

// Samples as in training are for the training length alone: longer ones are an axis of their own.
std::vector<std::int64_t> lengths_of(const tasks::Task& task, const tasks::Axis& axis,
                                     const EvalSetting& setting) {
  const std::int64_t natural = task.natural_length(axis.name, setting.train_length);
  if (axis.in_domain) return {natural};
  if (setting.config.lengths.front() > 0) return setting.config.lengths;
  std::vector<std::int64_t> lengths = setting.config.factors;
  for (std::int64_t& length : lengths) length *= natural;
  return lengths;
}

void add_once(std::vector<EvalCase>& cases, const EvalCase& c) {
  if (std::find(cases.begin(), cases.end(), c) == cases.end()) cases.push_back(c);
}

// With the length of its axis where a condition names none; an Error for an axis that the task does not have.
void add_conditions(const tasks::Task& task, const EvalSetting& setting,
                    const std::vector<EvalCase>& conditions, const char* field,
                    std::vector<EvalCase>& cases) {
  for (EvalCase c : conditions) {
    (void)find_axis(task.axes(), c.axis, task, field);
    if (c.length == 0) c.length = task.natural_length(c.axis, setting.train_length);
    add_once(cases, c);
  }
}

bool evaluate_batches(model::Transformer& model, const tasks::Task& task,
                      const tasks::Condition& condition, const EvalSetting& setting,
                      Collector& collector) {
  const std::int64_t samples =
      std::min(task.rows(condition).value_or(setting.config.samples), setting.config.samples);
  // Random positions are drawn for each row, so that a figure depends on nothing but its rows.
  const bool one_by_one = setting.train.positions == config::PositionPolicy::kSubset;
  const std::int64_t per_batch =
      one_by_one ? 1
                 : std::max<std::int64_t>(1, setting.config.tokens_per_batch / condition.length);
  for (std::int64_t done = 0; done < samples; done += per_batch) {
    if (stopped(setting)) return false;
    tasks::Batch batch;
    batch.rows = std::min(per_batch, samples - done);
    task.fill(condition, static_cast<std::uint64_t>(setting.config.seed),
              static_cast<std::uint64_t>(done), batch);
    const Samples tensors = to_samples(batch, 0, batch.rows, setting.device);
    try {
      const model::Interruptible scope(setting.stop);
      collector.add(batch, tensors,
                    score(model, tensors, setting, positions_at(setting, batch.length, done)));
    } catch (const Interrupted&) {
      return false;
    }
    if (setting.progress) setting.progress(done + batch.rows, samples);
  }
  return !stopped(setting);
}

}  // namespace

tasks::Condition condition_of(const EvalCase& c, const EvalSetting& setting) {
  return {.axis = c.axis,
          .length = c.length,
          .train_length = setting.train_length,
          .split = setting.split};
}

std::optional<EvalRow> evaluate_row(model::Transformer& model, const tasks::Task& task,
                                    const EvalCase& c, const EvalSetting& setting) {
  const at::NoGradGuard quiet;
  EvalRow row = named_row(task, c, setting);
  if (setting.longest >= 0 && c.length > setting.longest) {
    row.skipped = fmt::format("positions end at {}", setting.longest);
    return row;
  }
  const tasks::Condition condition = condition_of(c, setting);
  const EvalMode mode(model);
  Collector collector(task, condition, std::move(row));
  if (!evaluate_batches(model, task, condition, setting, collector)) return std::nullopt;
  EvalRow found = collector.finish();
  found.free_running = free_running(model, task, c, setting);
  if (stopped(setting)) return std::nullopt;
  return found;
}

std::vector<EvalCase> eval_cases(const tasks::Task& task, const EvalSetting& setting) {
  const std::vector<tasks::Axis> axes = task.axes();
  const config::EvalConfig& config = setting.config;
  const bool all = config.axes == std::vector<std::string>{"all"};
  for (const std::string& name : all ? std::vector<std::string>{} : config.axes) {
    (void)find_axis(axes, name, task);
  }
  std::vector<EvalCase> cases;
  for (const tasks::Axis& axis : axes) {
    const bool wanted =
        all || std::find(config.axes.begin(), config.axes.end(), axis.name) != config.axes.end();
    if (!wanted || (!axis.in_domain && !config.conditions.empty())) continue;
    for (const std::int64_t length : lengths_of(task, axis, setting)) {
      add_once(cases, {axis.name, length});
    }
  }
  add_conditions(task, setting, config.conditions, "eval.conditions", cases);
  return cases;
}

std::vector<EvalCase> cases_on_the_way(const tasks::Task& task, const EvalSetting& setting) {
  std::vector<EvalCase> cases = {{"train", setting.train_length}};
  add_conditions(task, setting, setting.train.eval_conditions, "train.eval_conditions", cases);
  return cases;
}

double score_of(const EvalRow& row, Metric metric) {
  const double value = row.headline().value;
  return traits_of(metric).higher_better ? value : -value;
}

}  // namespace posenc::train
