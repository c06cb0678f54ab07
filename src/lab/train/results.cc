#include "train/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/bind.h"
#include "train/values.h"

namespace posenc::train {
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
    Value::Map members = {{"from", integer(bucket.positions.begin)},
                          {"to", integer(bucket.positions.end - 1)}};
    add_tally(members, bucket.tally);
    if (bucket.tally.scored > 0) members.push_back({"chance", number(bucket.chance)});
    list.push_back(map(std::move(members)));
  }
  return {Value::Data(std::move(list))};
}

Value depths_value(const EvalRow& row) {
  Value::List list;
  for (const DepthBucket& bucket : row.by_depth) {
    list.push_back(map({{"from", number(bucket.from)},
                        {"to", number(bucket.to)},
                        {"rows", integer(bucket.rows.scored)},
                        {"right", integer(bucket.rows.correct)}}));
  }
  return {Value::Data(std::move(list))};
}

Value estimate_value(const statistics::Estimate& e) {
  return map({{"value", number(e.value)},
              {"low", number(e.interval.low)},
              {"high", number(e.interval.high)}});
}

Value free_running_value(const FreeRunning& free) {
  return map({{"samples", integer(free.samples)},
              {"tokens", estimate_value(free.tokens)},
              {"rows", estimate_value(free.rows)}});
}

// Positions `from` to `to`, both included.
void add_score(Value::Map& members, const RegionScore& score) {
  members.push_back({"from", integer(score.positions.begin)});
  members.push_back({"to", integer(score.positions.end - 1)});
  add_tally(members, score.tally);
  members.push_back({"value", number(score.estimate.value)});
  members.push_back({"low", number(score.estimate.interval.low)});
  members.push_back({"high", number(score.estimate.interval.high)});
  members.push_back({"chance", number(score.chance)});
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " | "));
}

// Rows no longer than the trained length are the model's own under every schedule.
bool counts_under(const EvalRow& row, const std::string& schedule) {
  return row.skipped.empty() &&
         (row.schedule == schedule || (row.schedule.empty() && row.factor <= 1.0));
}

// The longest length of each axis that passes the threshold, under a schedule as "longer, yarn"; of accuracies
// and errors alone.
Value effective_lengths(const tasks::Task& task, const std::vector<EvalRow>& rows,
                        double threshold) {
  const MetricTraits metric = traits_of(task.info().metric);
  if (!metric.share) return {};
  const double limit = metric.higher_better ? threshold : 1.0 - threshold;
  std::map<std::string, std::vector<statistics::LengthValue>> lengths;
  for (const EvalRow& named : rows) {
    const std::string name =
        named.axis + (named.schedule.empty() ? "" : fmt::format(", {}", named.schedule));
    if (!named.skipped.empty() || lengths.contains(name)) continue;
    for (const EvalRow& row : rows) {
      if (row.axis != named.axis || !counts_under(row, named.schedule)) continue;
      lengths[name].push_back({row.length, row.headline().value});
    }
  }
  Value::Map members;
  for (const auto& [name, values] : lengths) {
    members.push_back(
        {name, integer(statistics::effective_length(values, limit, metric.higher_better))});
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
  members.push_back({"beyond_training", write_field(row.beyond_training)});
  members.push_back({"samples", integer(row.samples)});
  add_score(members, row.region(runs::Region::kHeadline));
  for (const runs::Region region : {runs::Region::kLastEighth, runs::Region::kAll}) {
    Value::Map score;
    add_score(score, row.region(region));
    members.push_back({std::string(runs::region_name(region)), map(std::move(score))});
  }
  members.push_back({"trained_share", number(row.trained_share)});
  members.push_back({"by_answer", answers_value(row)});
  members.push_back({"by_position", positions_value(row)});
  if (row.free_running) members.push_back({"free_running", free_running_value(*row.free_running)});
  if (!row.by_depth.empty()) members.push_back({"by_depth", depths_value(row)});
  return map(std::move(members));
}

Value results_value(const config::Loaded& loaded, const tasks::Task& task,
                    const std::map<std::string, std::int64_t>& parameters,
                    const TrainFigures& figures, const std::vector<EvalRow>& rows) {
  const config::LabConfig& config = loaded.config;
  Value::Map counts;
  for (const auto& [part, count] : parameters) counts.push_back({part, integer(count)});
  Value::List list;
  for (const EvalRow& row : rows) list.push_back(row_value(row));
  const double seconds = std::max(figures.seconds, 1e-9);
  const auto& gpu = figures.peak_gpu_bytes;
  return map({{"task", text(task.info().name)},
              {"encoding", text(joined(config.model.encoding))},
              {"config_hash", text(loaded.hash)},
              {"eval_hash", text(loaded.eval_hash)},
              {"eval", map(all_fields(config.eval))},
              {"seed", integer(config.seed)},
              {"train_length", integer(train_length(config.train))},
              {"metric", write_field(task.info().metric)},
              {"row_metric", write_field(task.info().row_metric)},
              {"step", integer(figures.step)},
              {"parameters", map(std::move(counts))},
              {"tokens_per_s", number(static_cast<double>(figures.tokens) / seconds)},
              {"train_seconds", number(figures.seconds)},
              {"data_share", number(figures.data_seconds / seconds)},
              {"peak_memory_bytes", integer(figures.peak_memory_bytes)},
              {"peak_gpu_bytes", gpu ? integer(*gpu) : Value()},
              {"threshold", number(config.eval.threshold)},
              {"effective_length", effective_lengths(task, rows, config.eval.threshold)},
              {"rows", Value(Value::Data(std::move(list)))}});
}

runs::RunTallies tallies_of(const config::Loaded& loaded, std::vector<EvalRow> rows) {
  runs::RunTallies scores{.evaluation_hash = loaded.eval_hash, .conditions = {}};
  for (EvalRow& row : rows) {
    if (row.skipped.empty()) scores.conditions.push_back(std::move(row.tallies));
  }
  return scores;
}

std::string row_text(const EvalRow& row, Metric metric) {
  const std::string place = fmt::format("{:<10} {:>6} ({:.3g}x){}{}", row.axis, row.length,
                                        row.factor, row.schedule.empty() ? "" : ", ", row.schedule);
  if (!row.skipped.empty()) return fmt::format("{}  none: {}", place, row.skipped);
  const RegionScore& score = row.region(runs::Region::kHeadline);
  const bool part = score.positions.begin > 0;
  const std::string where =
      part ? fmt::format("positions {} to {}: ", score.positions.begin, score.positions.end - 1)
           : "";
  const auto& interval = score.estimate.interval;
  if (in_bits(metric)) {
    return fmt::format("{}  {}{:.4f} {} [{:.4f}, {:.4f}], chance {:.3f}", place, where,
                       score.estimate.value, traits_of(metric).unit, interval.low, interval.high,
                       score.chance);
  }
  return fmt::format(
      "{}  {}{} {:6.2f} % [{:.2f}, {:.2f}], chance {:.1f} %, answers trained {:.0f} %", place,
      where, name_of(metric), 100 * score.estimate.value, 100 * interval.low, 100 * interval.high,
      100 * score.chance, 100 * row.trained_share);
}

}  // namespace posenc::train
