// The difference between two encodings, measured on the same rows by several trainings of each.
//
//   const Difference d = paired_difference(condition, cope, rope);
//   if (d.interval) ...   // d.value with its 95 % interval; d.p is the two-sided p-value
//
// The question is about encodings: would another training, scored on other rows of the task, show the
// same difference? Seeds are the outer unit and rows the inner one (docs/statistics.md has the formulas
// and the simulated coverage):
//   seeds  Welch: the variances of both encodings' seed means add up. Seeds are not paired, although
//          runs of one seed number share data order and initial values: pairing costs half the degrees of
//          freedom, and without it a positive correlation only makes the interval wider.
//   rows   paired: the variance of the per-row difference. Rows that are hard for both cancel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/metric.h"
#include "statistics/estimates.h"

namespace posenc::statistics {

using posenc::Metric;

// Fewer trainings than this per encoding show points and support no claim.
inline constexpr std::size_t kFewestSeeds = 3;

// One training, scored on one condition.
struct RunScores {
  std::int64_t seed = 0;
  std::vector<RowSum> rows;  // in the unit of the metric; those of a failed run are not read
  bool failed = false;       // diverged or failed: it has no score, and it still counts

  // Also where the sum of its rows is not finite.
  [[nodiscard]] bool is_failure() const;
};

struct EncodingScores {
  std::string encoding;
  std::vector<RunScores> runs;  // one per seed
  bool same_runs = false;  // trainings of another encoding of the condition, evaluated otherwise
};

// One column of a table: every encoding on the same rows.
struct ConditionScores {
  std::string place;  // as a sentence goes on: "at 2x", "on the sparse set"
  Metric metric = Metric::kAccuracy;
  std::vector<std::uint32_t> clusters;  // a document per row; empty: each row is its own
  std::vector<EncodingScores> encodings;
};

// The figure of a run: total over weight. A failed run has the worst value of the metric, which is an
// infinity of the bad side where the metric is unbounded. NaN where no row has a weight.
double run_value(const RunScores& run, Metric metric);
std::vector<double> run_values(const EncodingScores& encoding, Metric metric);

struct Difference {
  // Mean of a minus mean of b; not finite where a run of an unbounded metric failed.
  double value = 0.0;
  // 95 %. Nothing where an encoding has fewer than kFewestSeeds runs, and of an unbounded metric nothing
  // where a run failed, where all rows are of one document, or where there is no spread at all.
  std::optional<Interval> interval;
  // Two-sided. Nothing where there is no interval, unless by_rank.
  std::optional<double> p;
  bool by_rank = false;  // a run of an unbounded metric failed: p is of the exact test of ranks
  // Of all pairs of runs, those in which a has the better value; equal values count half.
  double share_won = 0.5;
};

// An Error where runs differ in the number of rows or in a row's weight: they were scored on other rows.
Difference paired_difference(const ConditionScores& condition, const EncodingScores& a,
                             const EncodingScores& b);

}  // namespace posenc::statistics
