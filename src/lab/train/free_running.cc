#include "train/free_running.h"

#include <algorithm>

#include "train/mixed_precision.h"

namespace posenc::train {
namespace {

// The rows of a batch, generated side by side: each has its answers at its own place.
class Generation {
 public:
  Generation(const tasks::Batch& batch, std::vector<AnswerSpan> spans, at::Device device)
      : batch_(batch), spans_(std::move(spans)), device_(device) {
    tokens_ = at::empty({batch.rows, batch.length}, at::kLong);
    std::copy(batch.tokens.begin(), batch.tokens.end(), tokens_.data_ptr<std::int64_t>());
  }

  // Everything up to the first answer of any row in one pass, then a token at a time.
  void run(model::Transformer& model) {
    const auto [first, last] = range();
    std::vector<nn::KeyValueCache> caches;
    at::Tensor given = tokens_.narrow(1, 0, first + 1);
    for (std::int64_t t = first; t < last; ++t) {
      const at::Tensor hidden = model->decode(given.to(device_), caches);
      take(t, model->logits(hidden.narrow(1, hidden.size(1) - 1, 1)).argmax(-1).to(at::kCPU));
      if (t + 1 < last) given = tokens_.narrow(1, t + 1, 1);
    }
  }

  // Right answers of a row.
  [[nodiscard]] statistics::RowSum score(std::int64_t row) const {
    const AnswerSpan& span = spans_[row];
    statistics::RowSum sum{0.0, static_cast<double>(span.end - span.begin)};
    for (std::int64_t t = span.begin; t < span.end; ++t) {
      const auto place = static_cast<std::size_t>(row * batch_.length + t);
      sum.total += said_[place] == batch_.targets[place] ? 1.0 : 0.0;
    }
    return sum;
  }

 private:
  [[nodiscard]] AnswerSpan range() const {
    AnswerSpan all = spans_.front();
    for (const AnswerSpan& span : spans_) {
      all = {std::min(all.begin, span.begin), std::max(all.end, span.end)};
    }
    return all;
  }
  // What rows say at position t; it is their next token where that is part of the answer.
  void take(std::int64_t t, const at::Tensor& said) {
    said_.resize(batch_.tokens.size(), tasks::kUnscored);
    for (std::int64_t row = 0; row < batch_.rows; ++row) {
      const AnswerSpan& span = spans_[row];
      if (t < span.begin || t >= span.end) continue;
      const auto token = said[row][0].item<std::int64_t>();
      said_[row * batch_.length + t] = static_cast<std::int32_t>(token);
      if (t + 1 < span.end) tokens_[row][t + 1] = token;
    }
  }

  const tasks::Batch& batch_;
  std::vector<AnswerSpan> spans_;
  at::Device device_;
  at::Tensor tokens_;
  std::vector<std::int32_t> said_;
};

std::vector<AnswerSpan> spans_of(const tasks::Batch& batch) {
  std::vector<AnswerSpan> spans;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const auto span = answer_span(batch, row);
    if (!span) return {};
    spans.push_back(*span);
  }
  return spans;
}

bool any_longer(const std::vector<AnswerSpan>& spans) {
  return std::any_of(spans.begin(), spans.end(),
                     [](const AnswerSpan& span) { return span.end - span.begin > 1; });
}

FreeRunning summarised(const std::vector<statistics::RowSum>& answers) {
  std::vector<statistics::RowSum> rows;
  for (const statistics::RowSum& row : answers)
    rows.push_back({row.total == row.weight ? 1.0 : 0.0, 1.0});
  return {std::ssize(rows), statistics::proportion_over_rows(answers),
          statistics::proportion_over_rows(rows)};
}

}  // namespace

std::optional<AnswerSpan> answer_span(const tasks::Batch& batch, std::int64_t row) {
  const auto start = static_cast<std::size_t>(row * batch.length);
  const auto targets =
      std::span(batch.targets).subspan(start, static_cast<std::size_t>(batch.length));
  const auto scored = [](std::int32_t target) { return target != tasks::kUnscored; };
  const auto first = std::find_if(targets.begin(), targets.end(), scored);
  const auto end = std::find_if_not(first, targets.end(), scored);
  const bool once = std::none_of(end, targets.end(), scored);
  const AnswerSpan span{first - targets.begin(), end - targets.begin()};
  if (!once || first == targets.end()) return std::nullopt;
  for (std::int64_t t = span.begin; t + 1 < span.end; ++t) {
    const auto place = static_cast<std::size_t>(t);
    if (batch.tokens[start + place + 1] != targets[place]) return std::nullopt;
  }
  return span;
}

std::optional<FreeRunning> free_running(model::Transformer& model, const tasks::Task& task,
                                        const EvalCase& c, const EvalSetting& setting) {
  const tasks::Condition condition = condition_of(c, setting);
  const std::int64_t samples = std::min(task.rows(condition).value_or(setting.config.free_running),
                                        setting.config.free_running);
  const std::int64_t per_batch =
      std::max<std::int64_t>(1, setting.config.tokens_per_batch / condition.length);
  const bool answers_end = task.info().metric != Metric::kBitsPerByte;  // a text is no answer
  // Decoding counts positions from 0.
  const bool counts = setting.train.positions != config::PositionPolicy::kSubset;
  if (samples == 0 || !answers_end || !counts || !model->why_not_decoded().empty()) {
    return std::nullopt;
  }
  const EvalMode mode(model);
  const MixedPrecision mixed(setting.train.precision);
  std::vector<statistics::RowSum> answers;
  for (std::int64_t done = 0; done < samples; done += per_batch) {
    if (stopped(setting)) return std::nullopt;
    tasks::Batch batch;
    batch.rows = std::min(per_batch, samples - done);
    task.fill(condition, static_cast<std::uint64_t>(setting.config.seed),
              static_cast<std::uint64_t>(done), batch);
    std::vector<AnswerSpan> spans = spans_of(batch);
    if (spans.empty() || (done == 0 && !any_longer(spans))) return std::nullopt;
    Generation generation(batch, std::move(spans), setting.device);
    generation.run(model);
    for (std::int64_t row = 0; row < batch.rows; ++row) answers.push_back(generation.score(row));
  }
  return summarised(answers);
}

}  // namespace posenc::train
