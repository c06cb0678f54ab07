// Estimates with intervals for figures that were measured on samples, with several seeds.
//
// Sources of uncertainty are estimated separately and then added:
//   samples  another draw of the evaluation's rows would give another figure. The row is the sampling
//            unit, because positions within a row are correlated.
//   seeds    another initialisation would have trained another model.
//   both     evaluations of several seeds usually use the same rows, so the spread over seeds does not
//            include the uncertainty of the rows: the two are added as variances.
// All intervals are for 95 %.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace posenc::statistics {

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

struct Estimate {
  double value = 0.0;
  Interval interval;
};

// --- one run: doubt about samples ---------------------------------------------------------------

// Wilson's score interval for a proportion p out of n independent trials; n may be a fraction, as
// effective sizes are. n = 0 says nothing: [0, 1].
Interval wilson(double p, double n);

// One row of an evaluation: `total` over `weight` scored positions. For an accuracy the total is the
// number of correct ones, for a loss the sum of negative log-likelihoods.
struct RowSum {
  double total = 0.0;
  double weight = 0.0;
};

// Accuracy over all positions, each row a cluster: the variance of the ratio estimator
//   v = m / (m - 1) SUM_i (c_i - p n_i)^2 / N^2
// is converted to the number of independent positions with that variance, p (1 - p) / v, never above
// N, and Wilson's interval is taken for that number. Where the data show no variance (all right, all
// wrong, one row) rows are counted as one trial each, which is the worst case.
Estimate proportion_over_rows(std::span<const RowSum> rows);

// Mean per position (loss, bits per byte), each row a cluster: ratio +- t_{m-1} sqrt(v).
Estimate mean_over_rows(std::span<const RowSum> rows);

// --- several runs: doubt about seeds ------------------------------------------------------------

// Quantile of Student's t: the x with P(T <= x) = p, for 0 < p < 1.
double student_t_quantile(double p, double degrees_of_freedom);
// P(|T| >= |t|): the two-sided p-value of a t statistic.
double student_t_p_value(double t, double degrees_of_freedom);

// Mean +- t_{n-1} s / sqrt(n). One value has no spread to learn from: its interval is the value.
Estimate mean_over_seeds(std::span<const double> values);

// One estimate per seed with its interval over samples. The half-widths of the mean's interval over
// seeds and of the root mean square of the seeds' own are added in squares, each side by itself, so
// that a proportion near 1 keeps its short side. With one seed this is that seed's interval: it then
// says nothing about the variation between seeds, so always print n with it.
Estimate combine_seeds(std::span<const Estimate> seeds);

// Proportions and losses have bounds that a sum of half-widths does not know.
Interval clamp(Interval interval, double lowest, double highest);

// --- figures made of many -----------------------------------------------------------------------

struct LengthValue {
  std::int64_t length = 0;
  double value = 0.0;
};

// The longest length at which the value still passes the threshold (at least it, or at most it where
// less is better), as it does at every shorter length that was measured; 0 when the shortest fails.
// A lucky length beyond a failure does not count.
std::int64_t effective_length(std::vector<LengthValue> values, double threshold,
                              bool higher_better);

// Ranks from 1 for the best; equals share the mean of their ranks. NaN ranks last.
std::vector<double> ranks(std::span<const double> values, bool higher_better);

}  // namespace posenc::statistics
