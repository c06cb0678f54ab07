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

// Samples as in training are for the training length alone: longer ones are a separate axis.
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

// The rows of a condition, cut into the batches that one process would compute.
class RowBatches {
 public:
  RowBatches(const tasks::Task& task, const tasks::Condition& condition, const EvalSetting& setting)
      : task_(task), condition_(condition), setting_(setting) {
    rows_ = std::min(task.rows(condition).value_or(setting.config.samples), setting.config.samples);
    // Random positions are drawn for each row, so that a figure depends on nothing but its rows.
    const bool one_by_one = setting.train.positions == config::PositionPolicy::kSubset;
    per_batch_ =
        one_by_one ? 1
                   : std::max<std::int64_t>(1, setting.config.tokens_per_batch / condition.length);
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t count() const { return (rows_ + per_batch_ - 1) / per_batch_; }
  [[nodiscard]] std::int64_t first_row(std::int64_t number) const { return number * per_batch_; }
  [[nodiscard]] tasks::Batch batch(std::int64_t number) const {
    tasks::Batch batch;
    batch.rows = std::min(per_batch_, rows_ - first_row(number));
    task_.fill(condition_, static_cast<std::uint64_t>(setting_.config.seed),
               static_cast<std::uint64_t>(first_row(number)), batch);
    return batch;
  }
  [[nodiscard]] Scores scores(model::Transformer& model, const tasks::Batch& batch,
                              const Samples& samples, std::int64_t number) const {
    const model::Interruptible scope(setting_.ranks == nullptr ? setting_.stop : nullptr);
    return score(model, samples, setting_, positions_at(setting_, batch.length, first_row(number)));
  }

 private:
  const tasks::Task& task_;
  const tasks::Condition& condition_;
  const EvalSetting& setting_;
  std::int64_t rows_ = 0;
  std::int64_t per_batch_ = 1;
};

// Each process computes one of as many batches as there are processes, and all get the scores of all: the figures are added
// in the order of the rows.
void share_round(model::Transformer& model, const RowBatches& batches, std::int64_t first,
                 const EvalSetting& setting, Collector& collector) {
  parallel::Ranks& ranks = *setting.ranks;
  const std::int64_t end = std::min<std::int64_t>(first + ranks.world(), batches.count());
  std::vector<tasks::Batch> round;
  std::vector<Samples> samples;
  std::int64_t most = 0;
  for (std::int64_t number = first; number < end; ++number) {
    const tasks::Batch& batch = round.emplace_back(batches.batch(number));
    samples.push_back(to_samples(batch, 0, batch.rows, at::kCPU));
    most = std::max(most, samples.back().scored());
  }
  at::Tensor mine = at::zeros({2, most}, at::kDouble);
  if (const std::int64_t number = first + ranks.rank(); number < end) {
    const auto i = static_cast<std::size_t>(ranks.rank());
    const Samples here = to_samples(round[i], 0, round[i].rows, setting.device);
    const Scores scores = batches.scores(model, round[i], here, number);
    mine[0].narrow(0, 0, scores.loss.numel()).copy_(scores.correct);
    mine[1].narrow(0, 0, scores.loss.numel()).copy_(scores.loss);
  }
  const std::vector<at::Tensor> all = ranks.gather(mine);
  for (std::size_t i = 0; i < round.size(); ++i) {
    const at::Tensor found = all[i].narrow(1, 0, samples[i].scored());
    collector.add(round[i], samples[i], {found[0].to(at::kBool), found[1].contiguous()});
  }
}

bool evaluate_shared(model::Transformer& model, const RowBatches& batches,
                     const EvalSetting& setting, Collector& collector) {
  const std::int64_t world = setting.ranks->world();
  for (std::int64_t first = 0; first < batches.count(); first += world) {
    if (stopped(setting)) return false;
    share_round(model, batches, first, setting, collector);
    const std::int64_t done = std::min(batches.first_row(first + world), batches.rows());
    if (setting.progress) setting.progress(done, batches.rows());
  }
  return !stopped(setting);
}

bool evaluate_batches(model::Transformer& model, const tasks::Task& task,
                      const tasks::Condition& condition, const EvalSetting& setting,
                      Collector& collector) {
  const RowBatches batches(task, condition, setting);
  if (setting.ranks != nullptr) return evaluate_shared(model, batches, setting, collector);
  for (std::int64_t number = 0; number < batches.count(); ++number) {
    if (stopped(setting)) return false;
    const tasks::Batch batch = batches.batch(number);
    const Samples tensors = to_samples(batch, 0, batch.rows, setting.device);
    try {
      collector.add(batch, tensors, batches.scores(model, batch, tensors, number));
    } catch (const Interrupted&) {
      return false;
    }
    if (setting.progress) {
      setting.progress(batches.first_row(number) + batch.rows, batches.rows());
    }
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
