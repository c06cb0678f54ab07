// Other intervals for the difference of two encodings, which docs/statistics.md compares with the chosen one.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "posenc/core/rng.h"
#include "statistics/paired.h"

namespace posenc::testing {

inline double mean_of(const std::vector<double>& values) {
  return statistics::mean_over_seeds(values).value;
}

// Variance of the mean.
inline double mean_variance(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto n = static_cast<double>(values.size());
  return squares / (n - 1.0) / n;
}

inline statistics::Interval around(double centre, double variance, double freedom) {
  const double half =
      variance > 0.0 ? statistics::student_t_quantile(0.975, freedom) * std::sqrt(variance) : 0.0;
  return {centre - half, centre + half};
}

// Per run the mean of every cluster, all of the same size; a failed run of a share has 0.
inline std::vector<std::vector<double>> cluster_means(const statistics::ConditionScores& scores,
                                                      std::size_t encoding) {
  const std::size_t clusters = scores.clusters.back() + 1;
  const double size = static_cast<double>(scores.clusters.size()) / static_cast<double>(clusters);
  std::vector<std::vector<double>> means;
  for (const statistics::RunScores& run : scores.encodings[encoding].runs) {
    means.emplace_back(clusters, 0.0);
    for (std::size_t row = 0; row < run.rows.size(); ++row) {
      means.back()[scores.clusters[row]] += run.rows[row].total / run.rows[row].weight / size;
    }
  }
  return means;
}

// Welch's interval of the seeds' figures: the rows are taken as the only ones there are.
inline statistics::Interval seeds_alone(const statistics::ConditionScores& scores) {
  const auto a = statistics::run_values(scores.encodings[0], scores.metric);
  const auto b = statistics::run_values(scores.encodings[1], scores.metric);
  const double va = mean_variance(a);
  const double vb = mean_variance(b);
  const double freedom =
      (va + vb) * (va + vb) / (va * va + vb * vb) * (static_cast<double>(a.size()) - 1.0);
  return around(mean_of(a) - mean_of(b), va + vb, freedom);
}

// Student's interval of differences between runs of the same seed, plus the variance over rows.
inline statistics::Interval seeds_paired(const statistics::ConditionScores& scores) {
  const auto a = cluster_means(scores, 0);
  const auto b = cluster_means(scores, 1);
  const auto n = static_cast<double>(a.size());
  std::vector<double> of_seed(a.size(), 0.0);
  std::vector<double> of_row(a[0].size(), 0.0);
  const auto m = static_cast<double>(of_row.size());
  for (std::size_t s = 0; s < a.size(); ++s) {
    for (std::size_t r = 0; r < of_row.size(); ++r) {
      of_seed[s] += (a[s][r] - b[s][r]) / m;
      of_row[r] += (a[s][r] - b[s][r]) / n;
    }
  }
  const double seeds = mean_variance(of_seed);
  const double rows = mean_variance(of_row);
  const double freedom =
      (seeds + rows) * (seeds + rows) / (seeds * seeds / (n - 1.0) + rows * rows / (m - 1.0));
  return around(mean_of(of_seed), seeds + rows, freedom);
}

// The hierarchical bootstrap: seeds of each encoding and the rows of both are drawn again, percentiles.
inline statistics::Interval bootstrap(const statistics::ConditionScores& scores, Rng& rng) {
  constexpr std::size_t kResamples = 200;
  const std::vector<std::vector<double>> means[] = {cluster_means(scores, 0),
                                                    cluster_means(scores, 1)};
  const auto n = static_cast<std::int64_t>(means[0].size());
  const auto m = static_cast<std::int64_t>(means[0][0].size());
  std::vector<double> draws;
  for (std::size_t draw = 0; draw < kResamples; ++draw) {
    std::vector<double> times(static_cast<std::size_t>(m), 0.0);
    for (std::int64_t i = 0; i < m; ++i) times[static_cast<std::size_t>(rng.integer(0, m - 1))]++;
    double difference = 0.0;
    for (std::int64_t i = 0; i < 2 * n; ++i) {
      const auto& run = means[i % 2][static_cast<std::size_t>(rng.integer(0, n - 1))];
      double sum = 0.0;
      for (std::size_t r = 0; r < run.size(); ++r) sum += times[r] * run[r];
      difference += (i % 2 == 0 ? sum : -sum) / static_cast<double>(m * n);
    }
    draws.push_back(difference);
  }
  std::sort(draws.begin(), draws.end());
  return {draws[kResamples / 40 - 1], draws[kResamples - kResamples / 40]};
}

}  // namespace posenc::testing
