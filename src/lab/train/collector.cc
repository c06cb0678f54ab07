#include "train/collector.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace posenc::train {
namespace {

constexpr std::size_t kMostAnswers = 256;  // a vocabulary of bytes is no list of answers
constexpr std::size_t kDepths = 10;

void add_to(Tally& tally, bool correct, double loss) {
  ++tally.scored;
  tally.correct += correct ? 1 : 0;
  tally.loss += loss;
}

runs::Tally compact(const Tally& tally) {
  const double loss = std::isnan(tally.loss) ? std::numeric_limits<double>::infinity() : tally.loss;
  return {static_cast<std::uint32_t>(tally.correct), static_cast<std::uint32_t>(tally.scored),
          static_cast<float>(loss)};
}

// Rows of a cluster are one unit: they are alike, and more of them say less than more clusters.
std::vector<statistics::RowSum> by_cluster(const std::vector<statistics::RowSum>& rows,
                                           const std::vector<std::uint32_t>& clusters) {
  if (clusters.empty()) return rows;
  std::map<std::uint32_t, statistics::RowSum> sums;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    sums[clusters[i]].total += rows[i].total;
    sums[clusters[i]].weight += rows[i].weight;
  }
  std::vector<statistics::RowSum> merged;
  for (const auto& [cluster, sum] : sums) merged.push_back(sum);
  return merged;
}

tasks::Region region_of(const runs::PositionRange& range, bool single) {
  return {range.begin, range.end, single};
}

}  // namespace

Collector::Collector(const tasks::Task& task, tasks::Condition condition, EvalRow row)
    : task_(task),
      condition_(std::move(condition)),
      row_(std::move(row)),
      edges_(runs::bucket_edges(condition_.train_length, condition_.length)) {
  for (std::size_t r = 0; r < runs::kRegions.size(); ++r) {
    row_.regions[r].positions =
        runs::region_range(runs::kRegions[r], condition_.train_length, condition_.length);
  }
  for (std::size_t b = 0; b + 1 < edges_.size(); ++b) {
    row_.by_position.push_back({{edges_[b], edges_[b + 1]}, {}, 0.0});
  }
  if (!task.info().has_depth) return;
  for (std::size_t d = 0; d < kDepths; ++d) {
    row_.by_depth.push_back(
        {static_cast<double>(d) / kDepths, static_cast<double>(d + 1) / kDepths, {}});
  }
}

void Collector::add_answer(RegionTallies& row, std::int64_t position, bool correct, double loss) {
  for (std::size_t r = 0; r < row.size(); ++r) {
    if (row_.regions[r].positions.holds(position)) add_to(row[r], correct, loss);
  }
  add_to(row_.by_position[runs::bucket_of(edges_, position)].tally, correct, loss);
}

void Collector::add(const tasks::Batch& batch, const Samples& samples, const Scores& scores) {
  const std::size_t first = rows_.size();
  rows_.resize(first + static_cast<std::size_t>(batch.rows));
  const at::Tensor places = samples.places.to(at::kCPU);
  const at::Tensor targets = samples.targets.to(at::kCPU);
  for (std::int64_t i = 0; i < places.numel(); ++i) {
    const std::int64_t place = places.data_ptr<std::int64_t>()[i];
    const bool right = scores.correct.data_ptr<bool>()[i];
    const double loss = scores.loss.data_ptr<double>()[i];
    add_answer(rows_[first + static_cast<std::size_t>(place / batch.length)], place % batch.length,
               right, loss);
    add_to(answers_[targets.data_ptr<std::int64_t>()[i]], right, loss);
  }
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(r);
    if (const auto cluster = task_.cluster(condition_, number)) clusters_.push_back(*cluster);
    if (!row_.by_depth.empty()) add_depth(batch, r);
  }
}

void Collector::add_depth(const tasks::Batch& batch, std::int64_t row) {
  const auto start = static_cast<std::size_t>(row * batch.length);
  const auto depth =
      task_.depth(std::span(batch.tokens).subspan(start, static_cast<std::size_t>(batch.length)));
  if (!depth) return;
  const auto bucket = std::min(kDepths - 1, static_cast<std::size_t>(*depth * kDepths));
  const std::size_t first = rows_.size() - static_cast<std::size_t>(batch.rows);
  const Tally& all =
      rows_[first + static_cast<std::size_t>(row)][static_cast<std::size_t>(runs::Region::kAll)];
  add_to(row_.by_depth[bucket].rows, all.correct == all.scored, all.loss);
}

// An answer may lie inside the trained length of every row (a class at its first token): then the headline is
// over the whole row, and says so by its positions.
void Collector::choose_ranges() {
  constexpr auto kAll = static_cast<std::size_t>(runs::Region::kAll);
  for (std::size_t r = 0; r < row_.regions.size(); ++r) {
    const bool none = std::all_of(rows_.begin(), rows_.end(),
                                  [&](const RegionTallies& row) { return row[r].scored == 0; });
    if (!none) continue;
    row_.regions[r].positions = row_.regions[kAll].positions;
    for (RegionTallies& row : rows_) row[r] = row[kAll];
  }
}

std::vector<statistics::RowSum> Collector::row_sums(std::size_t region) const {
  std::vector<statistics::RowSum> sums;
  for (const RegionTallies& row : rows_) {
    const Tally& tally = row[region];
    const auto correct = static_cast<double>(tally.correct);
    const auto scored = static_cast<double>(tally.scored);
    if (in_bits(task_.info().metric)) {
      sums.push_back({tally.loss / std::numbers::ln2, scored});
    } else if (task_.info().row_metric) {
      sums.push_back({tally.scored > 0 && tally.correct == tally.scored ? 1.0 : 0.0,
                      tally.scored > 0 ? 1.0 : 0.0});
    } else {
      sums.push_back({correct, scored});
    }
  }
  return by_cluster(sums, clusters_);
}

statistics::Estimate Collector::estimate(std::size_t region) const {
  const std::vector<statistics::RowSum> rows = row_sums(region);
  if (in_bits(task_.info().metric)) return statistics::mean_over_rows(rows);
  const statistics::Estimate right = statistics::proportion_over_rows(rows);
  if (task_.info().metric != Metric::kError) return right;
  return {1.0 - right.value, {1.0 - right.interval.high, 1.0 - right.interval.low}};
}

void Collector::add_chances() {
  std::vector<tasks::Region> ranges;
  for (const RegionScore& score : row_.regions) ranges.push_back(region_of(score.positions, false));
  for (const PositionBucket& bucket : row_.by_position) {
    ranges.push_back(region_of(bucket.positions, true));
  }
  const std::vector<double> chances = task_.chances(condition_, ranges);
  auto chance = chances.begin();
  for (RegionScore& score : row_.regions) score.chance = *chance++;
  for (PositionBucket& bucket : row_.by_position) bucket.chance = *chance++;
}

runs::ConditionTallies Collector::condition_tallies() const {
  runs::ConditionTallies tallies;
  tallies.name = runs::condition_name(condition_.axis, condition_.length);
  tallies.clusters = clusters_;
  for (std::size_t r = 0; r < tallies.regions.size(); ++r) {
    for (const RegionTallies& row : rows_) tallies.regions[r].push_back(compact(row[r]));
  }
  return tallies;
}

EvalRow Collector::finish() {
  row_.samples = std::ssize(rows_);
  choose_ranges();
  for (std::size_t r = 0; r < row_.regions.size(); ++r) {
    row_.regions[r].estimate = estimate(r);
    for (const RegionTallies& row : rows_) {
      row_.regions[r].tally.scored += row[r].scored;
      row_.regions[r].tally.correct += row[r].correct;
      row_.regions[r].tally.loss += row[r].loss;
    }
  }
  add_chances();
  row_.trained_share = task_.trained_share(condition_);
  row_.tallies = condition_tallies();
  if (!in_bits(task_.info().metric) && answers_.size() <= kMostAnswers) {
    for (const auto& [target, tally] : answers_) {
      row_.by_answer[task_.token_text(static_cast<std::int32_t>(target))] = tally;
    }
  }
  return std::move(row_);
}

}  // namespace posenc::train
