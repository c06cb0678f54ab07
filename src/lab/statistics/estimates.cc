#include "statistics/estimates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace posenc::statistics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr double kZ = 1.959963984540054;  // 97.5 % quantile of the normal distribution
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Ratio {
  double value = 0.0;
  double weight = 0.0;
  double variance = 0.0;  // of the ratio; 0 with fewer than two rows
  double rows = 0.0;      // those with weight
};

Ratio ratio_of(std::span<const RowSum> rows) {
  Ratio ratio;
  double total = 0.0;
  for (const RowSum& row : rows) {
    total += row.total;
    ratio.weight += row.weight;
    ratio.rows += row.weight > 0.0 ? 1.0 : 0.0;
  }
  if (ratio.weight <= 0.0) return {.value = kNan};
  ratio.value = total / ratio.weight;
  if (ratio.rows < 2.0) return ratio;
  double squares = 0.0;
  for (const RowSum& row : rows) {
    const double residual = row.total - ratio.value * row.weight;
    squares += residual * residual;
  }
  ratio.variance = ratio.rows / (ratio.rows - 1.0) * squares / (ratio.weight * ratio.weight);
  return ratio;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1.0;
  double d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
  double result = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1.0 / away_from_zero(1.0 + even * d);
    c = away_from_zero(1.0 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1.0 / away_from_zero(1.0 + odd * d);
    c = away_from_zero(1.0 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1.0) < 1e-15) break;
  }
  return result;
}

// Regularised incomplete beta function I_x(a, b).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0.0) return 0.0;
  if (x >= 1.0) return 1.0;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1.0) / (a + b + 2.0) ? front * beta_fraction(a, b, x) / a
                                       : 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

// P(T > x) for x >= 0.
double student_t_tail(double x, double nu) {
  return 0.5 * incomplete_beta(0.5 * nu, 0.5, nu / (nu + x * x));
}

}  // namespace

Interval wilson(double p, double n) {
  if (!(n > 0.0)) return {0.0, 1.0};
  const double z2 = kZ * kZ;
  const double centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
  const double half =
      kZ / (1.0 + z2 / n) * std::sqrt(std::max(0.0, p * (1.0 - p) / n + z2 / (4.0 * n * n)));
  // The interval holds p; rounding would leave it outside at 0 and 1.
  return {std::clamp(centre - half, 0.0, p), std::clamp(centre + half, p, 1.0)};
}

Estimate proportion_over_rows(std::span<const RowSum> rows) {
  const Ratio ratio = ratio_of(rows);
  if (std::isnan(ratio.value)) return {kNan, {0.0, 1.0}};
  const double spread = ratio.value * (1.0 - ratio.value);
  const double effective =
      ratio.variance > 0.0 ? std::min(ratio.weight, spread / ratio.variance) : ratio.rows;
  return {ratio.value, wilson(ratio.value, effective)};
}

Estimate mean_over_rows(std::span<const RowSum> rows) {
  const Ratio ratio = ratio_of(rows);
  // One row, or one document, does not tell how others differ from it.
  if (ratio.rows < 2.0) return {ratio.value, {-kInfinity, kInfinity}};
  const double half = student_t_quantile(0.975, ratio.rows - 1.0) * std::sqrt(ratio.variance);
  return {ratio.value, {ratio.value - half, ratio.value + half}};
}

double student_t_quantile(double p, double degrees_of_freedom) {
  if (!(p > 0.0 && p < 1.0) || !(degrees_of_freedom > 0.0)) return kNan;
  if (p < 0.5) return -student_t_quantile(1.0 - p, degrees_of_freedom);
  const double tail = 1.0 - p;
  double low = 0.0;
  double high = 1.0;
  while (student_t_tail(high, degrees_of_freedom) > tail && high < 1e150) high *= 2.0;
  for (int step = 0; step < 200 && high - low > 1e-14 * high; ++step) {
    const double middle = 0.5 * (low + high);
    (student_t_tail(middle, degrees_of_freedom) > tail ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double student_t_p_value(double t, double degrees_of_freedom) {
  return 2.0 * student_t_tail(std::abs(t), degrees_of_freedom);
}

Estimate mean_over_seeds(std::span<const double> values) {
  if (values.empty()) return {kNan, {kNan, kNan}};
  const double mean = mean_of(values);
  if (values.size() < 2) return {mean, {mean, mean}};
  const auto n = static_cast<double>(values.size());
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double half = student_t_quantile(0.975, n - 1.0) * std::sqrt(squares / (n - 1.0) / n);
  return {mean, {mean - half, mean + half}};
}

Estimate combine_seeds(std::span<const Estimate> seeds) {
  std::vector<double> values;
  double below = 0.0;
  double above = 0.0;
  const auto n = static_cast<double>(seeds.size());
  for (const Estimate& seed : seeds) {
    values.push_back(seed.value);
    below += (seed.value - seed.interval.low) * (seed.value - seed.interval.low) / n;
    above += (seed.interval.high - seed.value) * (seed.interval.high - seed.value) / n;
  }
  const Estimate mean = mean_over_seeds(values);
  const double half = mean.interval.high - mean.value;
  return {
      mean.value,
      {mean.value - std::sqrt(half * half + below), mean.value + std::sqrt(half * half + above)}};
}

Interval clamp(Interval interval, double lowest, double highest) {
  return {std::clamp(interval.low, lowest, highest), std::clamp(interval.high, lowest, highest)};
}

std::int64_t effective_length(std::vector<LengthValue> values, double threshold,
                              bool higher_better) {
  std::sort(values.begin(), values.end(),
            [](const LengthValue& a, const LengthValue& b) { return a.length < b.length; });
  std::int64_t longest = 0;
  for (const LengthValue& v : values) {
    const bool passes = higher_better ? v.value >= threshold : v.value <= threshold;
    if (!passes) break;
    longest = v.length;
  }
  return longest;
}

std::vector<double> ranks(std::span<const double> values, bool higher_better) {
  const auto better = [&](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return higher_better ? a > b : a < b;
  };
  std::vector<double> result;
  for (const double mine : values) {
    double ahead = 0.0;
    double equal = 0.0;  // counts itself
    for (const double other : values) {
      if (better(other, mine)) {
        ++ahead;
      } else if (!better(mine, other)) {
        ++equal;
      }
    }
    result.push_back(ahead + 0.5 * (equal + 1.0));
  }
  return result;
}

}  // namespace posenc::statistics
