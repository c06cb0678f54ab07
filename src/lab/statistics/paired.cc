#include "statistics/paired.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "posenc/core/error.h"
#include "statistics/rank_test.h"

namespace posenc::statistics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-24;  // squares of shares below this are rounding, not spread

// A part of the variance of a difference, and the degrees of freedom that it was estimated with.
struct VariancePart {
  double variance = 0.0;
  double degrees_of_freedom = 1.0;
};

// By how much each cluster moves an encoding's mean: (total - value * weight) / sum of weights.
struct Influence {
  std::vector<double> mean;  // over the runs, by cluster
  double noise = 0.0;  // variance of the mean that runs do not share, summed over the clusters
};

// The clusters of the rows that have a weight, numbered; rows without one are in no cluster.
struct ClusterIndex {
  std::vector<std::size_t> of_row;
  std::size_t count = 0;
};

RowSum sum_of(const std::vector<RowSum>& rows) {
  RowSum sum;
  for (const RowSum& row : rows) {
    sum.total += row.total;
    sum.weight += row.weight;
  }
  return sum;
}

Error rows_error(const EncodingScores& encoding, const RunScores& run, std::size_t wanted) {
  return {ErrorKind::kWrongLength,
          {.scope = fmt::format("{} seed {}", encoding.encoding, run.seed),
           .key = "rows",
           .rule = fmt::format("must be the {} rows that the other runs were scored on", wanted),
           .value = fmt::format("{} rows", run.rows.size()),
           .hint = "evaluate all runs with the same eval fields: posenc eval"}};
}

const RunScores* first_scored(std::span<const EncodingScores* const> encodings) {
  for (const EncodingScores* encoding : encodings) {
    for (const RunScores& run : encoding->runs) {
      if (!run.is_failure()) return &run;
    }
  }
  return nullptr;
}

// Other weights are other rows, and differences between other rows mean nothing.
void require_same_rows(const EncodingScores& encoding, const std::vector<RowSum>& wanted) {
  for (const RunScores& run : encoding.runs) {
    const bool same = std::equal(
        run.rows.begin(), run.rows.end(), wanted.begin(), wanted.end(),
        [](const RowSum& mine, const RowSum& theirs) { return mine.weight == theirs.weight; });
    if (!run.is_failure() && !same) throw rows_error(encoding, run, wanted.size());
  }
}

ClusterIndex number_clusters(const std::vector<std::uint32_t>& clusters,
                             const std::vector<RowSum>& rows) {
  ClusterIndex index{.of_row = std::vector<std::size_t>(rows.size(), 0)};
  std::map<std::size_t, std::size_t> numbers;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].weight <= 0.0) continue;
    const std::size_t id = clusters.empty() ? row : clusters[row];
    index.of_row[row] = numbers.emplace(id, numbers.size()).first->second;
  }
  index.count = numbers.size();
  return index;
}

ClusterIndex shared_clusters(const ConditionScores& condition, const EncodingScores& a,
                             const EncodingScores& b) {
  const EncodingScores* const both[] = {&a, &b};
  const RunScores* first = first_scored(both);
  if (first == nullptr) return {};
  for (const EncodingScores* encoding : both) require_same_rows(*encoding, first->rows);
  if (!condition.clusters.empty() && condition.clusters.size() != first->rows.size()) {
    throw rows_error(a, *first, condition.clusters.size());
  }
  return number_clusters(condition.clusters, first->rows);
}

std::vector<double> run_influence(const RunScores& run, const ClusterIndex& clusters) {
  std::vector<double> by_cluster(clusters.count, 0.0);
  if (run.is_failure()) return by_cluster;  // the worst value on every row: no row moves it
  const RowSum sum = sum_of(run.rows);
  const double value = sum.total / sum.weight;
  for (std::size_t row = 0; row < run.rows.size(); ++row) {
    const RowSum& of_row = run.rows[row];
    if (of_row.weight <= 0.0) continue;
    by_cluster[clusters.of_row[row]] += (of_row.total - value * of_row.weight) / sum.weight;
  }
  return by_cluster;
}

Influence encoding_influence(const EncodingScores& encoding, const ClusterIndex& clusters) {
  const auto n = static_cast<double>(encoding.runs.size());
  std::vector<std::vector<double>> runs;
  Influence influence{.mean = std::vector<double>(clusters.count, 0.0)};
  for (const RunScores& run : encoding.runs) {
    runs.push_back(run_influence(run, clusters));
    for (std::size_t c = 0; c < clusters.count; ++c) influence.mean[c] += runs.back()[c] / n;
  }
  for (const auto& run : runs) {
    for (std::size_t c = 0; c < clusters.count; ++c) {
      influence.noise += std::pow(run[c] - influence.mean[c], 2) / (n * (n - 1.0));
    }
  }
  return influence;
}

VariancePart seed_part(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = mean_over_seeds(values).value;
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {squares / (n - 1.0) / n, n - 1.0};
}

// The variance of a share if one more row, of m + 2, would tell the encodings apart (Agresti and Min's
// correction of a paired difference): rows that are all alike do not show that the next one is.
double least_variance(Metric metric, double clusters) {
  return traits_of(metric).worst ? 1.0 / ((clusters + 2.0) * (clusters + 2.0)) : 0.0;
}

// The variance that the choice of rows adds to the difference. The part that differs from run to run is
// in the spread of the seeds already, so it is taken out.
VariancePart row_part(const ConditionScores& condition, const EncodingScores& a,
                      const EncodingScores& b) {
  const ClusterIndex clusters = shared_clusters(condition, a, b);
  const Influence of_a = encoding_influence(a, clusters);
  const Influence of_b = encoding_influence(b, clusters);
  double squares = 0.0;
  for (std::size_t c = 0; c < clusters.count; ++c) {
    squares += std::pow(of_a.mean[c] - of_b.mean[c], 2);
  }
  const auto m = static_cast<double>(clusters.count);
  if (m < 2.0 || squares < kRounding) {
    const bool of_rows = in_bits(condition.metric);  // a speed has one row a run
    const double freedom = of_rows ? m - 1.0 : std::max(m - 1.0, 1.0);
    return {least_variance(condition.metric, m), freedom};
  }
  return {std::max(m / (m - 1.0) * (squares - of_a.noise - of_b.noise), 0.0), m - 1.0};
}

// Student's interval for a sum of variances, each with its own degrees of freedom (Welch, Satterthwaite).
void add_interval(Difference& difference, std::span<const VariancePart> parts,
                  const MetricTraits& metric) {
  double variance = 0.0;
  double weighted = 0.0;
  for (const VariancePart& part : parts) {
    variance += part.variance;
    weighted += part.variance * part.variance / part.degrees_of_freedom;
  }
  if (!(weighted > 0.0) || !std::isfinite(difference.value)) return;
  const double freedom = variance * variance / weighted;
  const double half = student_t_quantile(0.975, freedom) * std::sqrt(variance);
  difference.interval = {difference.value - half, difference.value + half};
  if (metric.worst) difference.interval = clamp(*difference.interval, -1.0, 1.0);
  difference.p = student_t_p_value(difference.value / std::sqrt(variance), freedom);
}

bool any_failed(const EncodingScores& encoding) {
  return std::any_of(encoding.runs.begin(), encoding.runs.end(),
                     [](const RunScores& run) { return run.is_failure(); });
}

}  // namespace

bool RunScores::is_failure() const { return failed || !std::isfinite(sum_of(rows).total); }

double run_value(const RunScores& run, Metric metric) {
  const MetricTraits traits = traits_of(metric);
  if (run.is_failure()) return traits.worst.value_or(traits.higher_better ? -kInfinity : kInfinity);
  const RowSum sum = sum_of(run.rows);
  return sum.weight > 0.0 ? sum.total / sum.weight : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> run_values(const EncodingScores& encoding, Metric metric) {
  std::vector<double> values;
  for (const RunScores& run : encoding.runs) values.push_back(run_value(run, metric));
  return values;
}

Difference paired_difference(const ConditionScores& condition, const EncodingScores& a,
                             const EncodingScores& b) {
  const MetricTraits metric = traits_of(condition.metric);
  const std::vector<double> values_a = run_values(a, condition.metric);
  const std::vector<double> values_b = run_values(b, condition.metric);
  Difference difference;
  difference.value = mean_over_seeds(values_a).value - mean_over_seeds(values_b).value;
  if (values_a.empty() || values_b.empty()) return difference;
  const double greater = share_of_greater(values_a, values_b);
  difference.share_won = metric.higher_better ? greater : 1.0 - greater;
  if (std::min(values_a.size(), values_b.size()) < kFewestSeeds) return difference;
  if (!metric.worst && (any_failed(a) || any_failed(b))) {
    difference.by_rank = true;
    difference.p = rank_test(values_a, values_b);
    return difference;
  }
  VariancePart parts[] = {seed_part(values_a), seed_part(values_b), row_part(condition, a, b)};
  VariancePart& rows = parts[2];
  // Figures of one document, however many rows of it there are, say nothing about other documents.
  const bool of_rows = condition.metric != Metric::kTokensPerSecond;
  if (of_rows && !metric.worst && rows.degrees_of_freedom < 1.0) return difference;
  // Seeds that differ in nothing but which rows they miss leave no spread at all.
  if (parts[0].variance + parts[1].variance + rows.variance < kRounding) {
    rows.variance = least_variance(condition.metric, rows.degrees_of_freedom + 1.0);
    rows.degrees_of_freedom = std::max(rows.degrees_of_freedom, 1.0);
  }
  add_interval(difference, parts, metric);
  return difference;
}

}  // namespace posenc::statistics
