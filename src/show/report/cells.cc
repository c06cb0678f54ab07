#include "report/cells.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace posenc::report {
namespace {

using Place = std::tuple<std::string, std::int64_t, std::string>;  // axis, length, schedule
using Rows = std::vector<const ResultRow*>;                        // of one condition, by seed

Place place_of(const ResultRow& row) { return {row.axis, row.length, row.schedule}; }

Rows rows_at(const SeedGroup& group, const Place& place) {
  Rows rows;
  for (const auto& [seed, run] : group.runs) {
    const auto& all = run->results->rows;
    const auto found = std::find_if(all.begin(), all.end(), [&](const ResultRow& row) {
      return place_of(row) == place && row.skipped.empty();
    });
    if (found != all.end()) rows.push_back(&*found);
  }
  return rows;
}

double mean_of(const std::vector<double>& values) {
  return statistics::mean_over_seeds(values).value;
}

// A failed run has the worst value; where the metric has none, nor has the mean.
RegionFigure make_figure(const Rows& rows, std::size_t region, std::size_t failed, Metric metric) {
  const MetricTraits traits = traits_of(metric);
  RegionFigure figure{.positions = rows.front()->regions[region].positions};
  std::vector<statistics::Estimate> estimates;
  std::vector<double> chances;
  for (const ResultRow* row : rows) {
    estimates.push_back(row->regions[region].estimate);
    figure.points.push_back(estimates.back().value);
    chances.push_back(row->regions[region].chance);
  }
  figure.chance = mean_of(chances);
  const double worst = traits.worst.value_or(std::numeric_limits<double>::quiet_NaN());
  estimates.insert(estimates.end(), failed, {worst, {worst, worst}});
  const statistics::Estimate all = statistics::combine_seeds(estimates);
  figure.mean = all.value;
  if (estimates.size() < statistics::kFewestSeeds || !std::isfinite(all.value)) return figure;
  const double highest = traits.share ? 1.0 : std::numeric_limits<double>::infinity();
  figure.interval = statistics::clamp(all.interval, 0.0, highest);
  return figure;
}

struct PointSum {
  std::vector<double> values;
  std::vector<double> chances;
};

std::vector<PositionResult> mean_by_position(const Rows& rows) {
  std::map<std::pair<std::int64_t, std::int64_t>, PointSum> sums;
  for (const ResultRow* row : rows) {
    for (const PositionResult& bucket : row->by_position) {
      PointSum& sum = sums[{bucket.positions.begin, bucket.positions.end}];
      sum.values.push_back(bucket.value);
      sum.chances.push_back(bucket.chance);
    }
  }
  std::vector<PositionResult> curve;
  for (const auto& [range, sum] : sums) {
    curve.push_back({{range.first, range.second}, mean_of(sum.values), mean_of(sum.chances)});
  }
  return curve;
}

std::vector<DepthResult> mean_by_depth(const Rows& rows) {
  std::map<std::pair<double, double>, std::vector<double>> values;
  for (const ResultRow* row : rows) {
    for (const DepthResult& bucket : row->by_depth) {
      values[{bucket.from, bucket.to}].push_back(bucket.accuracy);
    }
  }
  std::vector<DepthResult> depths;
  for (const auto& [range, of_seeds] : values) {
    depths.push_back({range.first, range.second, mean_of(of_seeds)});
  }
  return depths;
}

Cell make_cell(const SeedGroup& group, const ResultRow& first, Metric metric, bool row_metric) {
  Cell cell{.axis = first.axis,
            .factor = first.factor,
            .length = first.length,
            .schedule = first.schedule,
            .skipped = first.skipped};
  const Rows rows = rows_at(group, place_of(first));
  if (rows.empty()) return cell;
  cell.beyond_training = rows.front()->beyond_training;
  cell.failed = group.failed.size();
  cell.n = rows.size() + cell.failed;
  for (std::size_t region = 0; region < cell.regions.size(); ++region) {
    cell.regions[region] = make_figure(rows, region, cell.failed, metric);
  }
  std::vector<double> shares;
  for (const ResultRow* row : rows) {
    if (row->trained_share) shares.push_back(*row->trained_share);
  }
  if (!shares.empty()) cell.trained_share = mean_of(shares);
  cell.by_position = mean_by_position(rows);
  cell.by_depth = mean_by_depth(rows);
  for (const ResultRow* row : rows) {
    if (row->generated) cell.generated.push_back(*row->generated);
    const std::optional<double> right = row->region(runs::Region::kHeadline).right;
    if (row_metric && right) {
      cell.single.push_back(metric == Metric::kError ? 1.0 - *right : *right);
    }
  }
  return cell;
}

std::int64_t effective_length_of(const Results& results, const EffectiveLength& of, double limit) {
  std::vector<statistics::LengthValue> values;
  for (const ResultRow& row : results.rows) {
    // Rows no longer than the trained length are the model's own under every schedule.
    const bool counts = row.schedule == of.schedule || (row.schedule.empty() && row.factor <= 1.0);
    if (row.axis == of.axis && counts && row.skipped.empty()) {
      values.push_back({row.length, row.headline().value});
    }
  }
  return statistics::effective_length(values, limit, traits_of(results.metric).higher_better);
}

}  // namespace

std::vector<Cell> make_cells(const SeedGroup& group, Metric metric, bool row_metric) {
  std::vector<Cell> cells;
  std::set<Place> seen;
  for (const auto& [seed, run] : group.runs) {
    for (const ResultRow& row : run->results->rows) {
      if (!seen.insert(place_of(row)).second) continue;
      cells.push_back(make_cell(group, row, metric, row_metric));
    }
  }
  return cells;
}

std::vector<EffectiveLength> effective_lengths(const SeedGroup& group,
                                               const std::vector<Cell>& cells, Metric metric,
                                               double threshold) {
  const MetricTraits traits = traits_of(metric);
  if (!traits.share) return {};
  // The threshold is an accuracy; of errors its complement is asked.
  const double limit = traits.higher_better ? threshold : 1.0 - threshold;
  std::vector<EffectiveLength> all;
  for (const Cell& cell : cells) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const EffectiveLength& e) {
      return e.axis == cell.axis && e.schedule == cell.schedule;
    });
    if (known || cell.axis == kInDomain) continue;
    EffectiveLength length{.axis = cell.axis, .schedule = cell.schedule};
    std::vector<std::int64_t> seeds(group.failed.size(), 0);
    for (const auto& [seed, run] : group.runs) {
      seeds.push_back(effective_length_of(*run->results, length, limit));
    }
    std::sort(seeds.begin(), seeds.end());
    length.lowest = seeds.front();
    length.median = seeds[(seeds.size() - 1) / 2];
    length.highest = seeds.back();
    all.push_back(length);
  }
  return all;
}

}  // namespace posenc::report
