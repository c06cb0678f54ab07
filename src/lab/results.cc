#include "lab/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/bind.h"
#include "lab/values.h"

namespace posenc::lab {
namespace {

Value map(Value::Map members) { return {Value::Data(std::move(members))}; }

void add_tally(Value::Map& members, const Tally& tally) {
  members.push_back({"scored", integer(tally.scored)});
  members.push_back({"correct", integer(tally.correct)});
  if (tally.scored == 0) return;
  members.push_back({"loss", number(tally.loss / static_cast<double>(tally.scored))});
}

Value answers_value(const EvalRow& row) {
  std::vector<std::pair<std::string, Tally>> sorted(row.by_answer.begin(), row.by_answer.end());
  // 2 before 10, where answers are numbers.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first.size() < b.first.size(); });
  Value::List list;
  for (const auto& [answer, tally] : sorted) {
    Value::Map members = {{"answer", text(answer)}};
    add_tally(members, tally);
    list.push_back(map(std::move(members)));
  }
  return {Value::Data(std::move(list))};
}

Value positions_value(const EvalRow& row) {
  Value::List list;
  for (const PositionBucket& bucket : row.by_position) {
    Value::Map members = {{"from", integer(bucket.from)}, {"to", integer(bucket.to)}};
    add_tally(members, bucket.tally);
    list.push_back(map(std::move(members)));
  }
  return {Value::Data(std::move(list))};
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " | "));
}

// The longest length of each axis that passes the threshold; of accuracies and errors alone.
Value effective_lengths(const tasks::Task& task, const std::vector<EvalRow>& rows,
                        double threshold) {
  const bool error = task.info().metric == "error";
  if (task.info().metric == "bits_per_byte") return {};
  std::map<std::string, std::vector<runs::LengthValue>> lengths;
  for (const EvalRow& row : rows) {
    if (row.skipped.empty()) lengths[row.axis].push_back({row.length, row.estimate.value});
  }
  Value::Map members;
  for (const auto& [axis, values] : lengths) {
    const double limit = error ? 1.0 - threshold : threshold;
    members.push_back({axis, integer(runs::effective_length(values, limit, !error))});
  }
  return map(std::move(members));
}

}  // namespace

Value row_value(const EvalRow& row) {
  Value::Map members = {{"axis", text(row.axis)},
                        {"length", integer(row.length)},
                        {"factor", write_field(row.factor)}};
  if (!row.schedule.empty()) members.push_back({"schedule", text(row.schedule)});
  if (!row.skipped.empty()) {
    members.push_back({"skipped", text(row.skipped)});
    return map(std::move(members));
  }
  members.push_back({"samples", integer(row.samples)});
  add_tally(members, row.all);
  members.push_back({"value", number(row.estimate.value)});
  members.push_back({"low", number(row.estimate.interval.low)});
  members.push_back({"high", number(row.estimate.interval.high)});
  members.push_back({"chance", number(row.chance)});
  members.push_back({"trained_share", number(row.trained_share)});
  members.push_back({"by_answer", answers_value(row)});
  members.push_back({"by_position", positions_value(row)});
  return map(std::move(members));
}

Value results_value(const experiment::Loaded& loaded, const tasks::Task& task,
                    const std::map<std::string, std::int64_t>& parameters,
                    const TrainFigures& figures, const std::vector<EvalRow>& rows) {
  const experiment::LabConfig& config = loaded.config;
  Value::Map counts;
  for (const auto& [part, count] : parameters) counts.push_back({part, integer(count)});
  Value::List list;
  for (const EvalRow& row : rows) list.push_back(row_value(row));
  const double seconds = std::max(figures.seconds, 1e-9);
  return map({{"task", text(task.info().name)},
              {"encoding", text(joined(config.model.encoding))},
              {"config_hash", text(loaded.hash)},
              {"seed", integer(config.seed)},
              {"train_length", integer(train_length(config.train))},
              {"metric", text(task.info().metric)},
              {"step", integer(figures.step)},
              {"parameters", map(std::move(counts))},
              {"tokens_per_s", number(static_cast<double>(figures.tokens) / seconds)},
              {"train_seconds", number(figures.seconds)},
              {"data_share", number(figures.data_seconds / seconds)},
              {"peak_memory_bytes", integer(figures.peak_memory_bytes)},
              {"threshold", number(config.eval.threshold)},
              {"effective_length", effective_lengths(task, rows, config.eval.threshold)},
              {"rows", Value(Value::Data(std::move(list)))}});
}

std::string row_text(const EvalRow& row, const std::string& metric) {
  const std::string place = fmt::format("{:<10} {:>6} ({:.3g}x)", row.axis, row.length, row.factor);
  if (!row.skipped.empty()) return fmt::format("{}  none: {}", place, row.skipped);
  const auto& interval = row.estimate.interval;
  if (metric == "bits_per_byte") {
    return fmt::format("{}  {:.4f} bits per byte [{:.4f}, {:.4f}], chance {:.3f}", place,
                       row.estimate.value, interval.low, interval.high, row.chance);
  }
  return fmt::format("{}  {} {:6.2f} % [{:.2f}, {:.2f}], chance {:.1f} %, answers trained {:.0f} %",
                     place, metric, 100 * row.estimate.value, 100 * interval.low,
                     100 * interval.high, 100 * row.chance, 100 * row.trained_share);
}

}  // namespace posenc::lab
