#include "lab/evaluate.h"

#include <algorithm>
#include <cmath>

#include "core/bind.h"
#include "lab/samples.h"
#include "model/interruptible.h"

namespace posenc::lab {
namespace {

constexpr std::int64_t kBuckets = 8;
constexpr std::size_t kMostAnswers = 256;  // a vocabulary of bytes is no list of answers
const double kLn2 = std::log(2.0);

struct Scores {
  at::Tensor correct;  // [N] bool
  at::Tensor loss;     // [N] double
};

Scores score(model::Transformer& model, const Samples& samples) {
  const at::Tensor hidden = model->hidden(samples.tokens).flatten(0, 1);
  const at::Tensor logits =
      model->logits(hidden.index_select(0, samples.places)).to(at::kFloat).log_softmax(-1);
  const at::Tensor loss = logits.gather(1, samples.targets.unsqueeze(1)).squeeze(1).neg();
  return {logits.argmax(-1).eq(samples.targets).to(at::kCPU), loss.to(at::kDouble).to(at::kCPU)};
}

void add(Tally& tally, bool correct, double loss) {
  ++tally.scored;
  tally.correct += correct ? 1 : 0;
  tally.loss += loss;
}

// Collects what one condition's batches give.
class Collector {
 public:
  Collector(const tasks::Task& task, std::int64_t length) : task_(task), length_(length) {
    row_.length = length;
    const std::int64_t buckets = std::min(kBuckets, length);
    for (std::int64_t b = 0; b < buckets; ++b) {
      row_.by_position.push_back({b * length / buckets, (b + 1) * length / buckets - 1, {}});
    }
  }

  void add_batch(const Samples& samples, const Scores& scores) {
    const auto first = row_correct_.size();
    const auto rows = static_cast<std::size_t>(samples.tokens.size(0));
    row_correct_.resize(first + rows);
    row_loss_.resize(first + rows);
    const at::Tensor places = samples.places.to(at::kCPU);
    const at::Tensor targets = samples.targets.to(at::kCPU);
    for (std::int64_t i = 0; i < places.numel(); ++i) {
      const std::int64_t place = places.data_ptr<std::int64_t>()[i];
      const bool right = scores.correct.data_ptr<bool>()[i];
      const double loss = scores.loss.data_ptr<double>()[i];
      const auto row = first + static_cast<std::size_t>(place / length_);
      row_correct_[row].total += right ? 1.0 : 0.0;
      row_correct_[row].weight += 1.0;
      row_loss_[row].total += loss;
      row_loss_[row].weight += 1.0;
      add(row_.all, right, loss);
      add(bucket(place % length_), right, loss);
      add(answers_[targets.data_ptr<std::int64_t>()[i]], right, loss);
    }
  }

  EvalRow finish() {
    row_.samples = static_cast<std::int64_t>(row_correct_.size());
    row_.estimate = estimate();
    if (task_.info().metric != "bits_per_byte" && answers_.size() <= kMostAnswers) {
      for (const auto& [target, tally] : answers_) {
        row_.by_answer[task_.token_text(static_cast<std::int32_t>(target))] = tally;
      }
    }
    return std::move(row_);
  }

 private:
  Tally& bucket(std::int64_t position) {
    for (PositionBucket& b : row_.by_position) {
      if (position <= b.to) return b.tally;
    }
    return row_.by_position.back().tally;
  }

  [[nodiscard]] runs::Estimate estimate() const {
    const tasks::TaskInfo& info = task_.info();
    if (info.metric == "bits_per_byte") {
      runs::Estimate e = runs::mean_over_rows(row_loss_);
      return {e.value / kLn2, {e.interval.low / kLn2, e.interval.high / kLn2}};
    }
    std::vector<runs::RowSum> rows = row_correct_;
    if (info.row_metric) {
      for (runs::RowSum& row : rows) row = {row.total == row.weight ? 1.0 : 0.0, 1.0};
    }
    const runs::Estimate right = runs::proportion_over_rows(rows);
    if (info.metric != "error") return right;
    return {1.0 - right.value, {1.0 - right.interval.high, 1.0 - right.interval.low}};
  }

  const tasks::Task& task_;
  std::int64_t length_;
  EvalRow row_;
  std::map<std::int64_t, Tally> answers_;
  std::vector<runs::RowSum> row_correct_, row_loss_;
};

// A model that evaluates while this lives.
class EvalMode {
 public:
  explicit EvalMode(model::Transformer& model)
      : model_(model), was_training_(model->is_training()) {
    model_->eval();
  }
  ~EvalMode() { model_->train(was_training_); }
  EvalMode(EvalMode&&) = delete;
  EvalMode& operator=(EvalMode&&) = delete;

 private:
  model::Transformer& model_;
  bool was_training_;
};

bool stopped(const EvalSetting& setting) {
  return setting.stop != nullptr && setting.stop->load(std::memory_order_relaxed);
}

void name_row(EvalRow& row, const std::string& axis, double factor) {
  row.axis = axis;
  row.factor = factor;
}

EvalRow skipped_row(std::int64_t length, const std::string& why) {
  EvalRow row;
  row.length = length;
  row.skipped = why;
  return row;
}

// Samples as in training are for the training length alone: longer ones are an axis of their own.
std::vector<std::int64_t> lengths_of(const tasks::Task& task, const std::string& axis,
                                     const EvalSetting& setting) {
  for (const tasks::Axis& known : task.axes()) {
    if (known.name == axis && known.in_domain) return {setting.train_length};
  }
  if (setting.config.lengths.front() > 0) return setting.config.lengths;
  std::vector<std::int64_t> lengths = setting.config.factors;
  for (std::int64_t& length : lengths) length *= setting.train_length;
  return lengths;
}

std::vector<std::string> wanted_axes(const tasks::Task& task,
                                     const experiment::EvalConfig& config) {
  std::vector<std::string> known;
  for (const tasks::Axis& axis : task.axes()) known.push_back(axis.name);
  if (config.axes == std::vector<std::string>{"all"}) return known;
  const std::vector<std::string_view> names(known.begin(), known.end());
  for (const std::string& axis : config.axes) {
    if (std::find(known.begin(), known.end(), axis) != known.end()) continue;
    throw Error(ErrorKind::kUnknownKey, {.scope = "eval",
                                         .key = "axes",
                                         .rule = "must be axes of " + task.info().name,
                                         .value = "'" + axis + "'",
                                         .hint = suggestion(axis, names)});
  }
  return config.axes;
}

}  // namespace

std::optional<EvalRow> evaluate_row(model::Transformer& model, const tasks::Task& task,
                                    const std::string& axis, std::int64_t length,
                                    const EvalSetting& setting) {
  const at::NoGradGuard quiet;
  const tasks::Condition condition{
      .axis = axis, .length = length, .train_length = setting.train_length, .held_out = true};
  if (setting.longest >= 0 && condition.length > setting.longest) {
    EvalRow row = skipped_row(condition.length,
                              "the table of positions ends at " + std::to_string(setting.longest));
    name_row(row, axis, factor_of(length, setting));
    return row;
  }
  const EvalMode mode(model);
  const std::int64_t samples =
      std::min(task.rows(condition).value_or(setting.config.samples), setting.config.samples);
  const std::int64_t per_batch =
      std::max<std::int64_t>(1, setting.config.tokens_per_batch / condition.length);
  Collector collector(task, condition.length);
  for (std::int64_t done = 0; done < samples; done += per_batch) {
    if (stopped(setting)) return std::nullopt;
    tasks::Batch batch;
    batch.rows = std::min(per_batch, samples - done);
    task.fill(condition, static_cast<std::uint64_t>(setting.config.seed),
              static_cast<std::uint64_t>(done), batch);
    const Samples tensors = to_samples(batch, 0, batch.rows, setting.device);
    try {
      const model::Interruptible scope(setting.stop);
      collector.add_batch(tensors, score(model, tensors));
    } catch (const Interrupted&) {
      return std::nullopt;
    }
    if (setting.progress) setting.progress(done + batch.rows, samples);
  }
  if (stopped(setting)) return std::nullopt;
  EvalRow row = collector.finish();
  name_row(row, axis, factor_of(length, setting));
  row.chance = task.chance(condition);
  row.trained_share = task.trained_share(condition);
  return row;
}

std::vector<EvalCase> eval_cases(const tasks::Task& task, const EvalSetting& setting) {
  std::vector<EvalCase> cases;
  for (const std::string& axis : wanted_axes(task, setting.config)) {
    for (const std::int64_t length : lengths_of(task, axis, setting)) {
      cases.push_back({axis, length});
    }
  }
  return cases;
}

std::optional<std::vector<EvalRow>> evaluate_all(model::Transformer& model, const tasks::Task& task,
                                                 const EvalSetting& setting) {
  std::vector<EvalRow> rows;
  for (const auto& [axis, length] : eval_cases(task, setting)) {
    auto row = evaluate_row(model, task, axis, length, setting);
    if (!row) return std::nullopt;
    rows.push_back(std::move(*row));
  }
  return rows;
}

double score_of(const EvalRow& row, const std::string& metric) {
  return runs::higher_is_better(metric) ? row.estimate.value : -row.estimate.value;
}

}  // namespace posenc::lab
