// Differences between encodings against figures worked out by hand.
#include "statistics/paired.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "posenc/core/rng.h"
#include "runs/run_case.h"
#include "statistics/score_case.h"

namespace posenc::statistics {
namespace {

using testing::additive;
using testing::condition;
using testing::encoding;
using testing::error_of;
using testing::kFailed;

Difference between(const ConditionScores& c) {
  return paired_difference(c, c.encodings[0], c.encodings[1]);
}

// Seeds: variances 0.01 / 3 each, 2 degrees of freedom. Rows: differences of +-0.1, so
// 4/3 * 4 * (0.1 / 4)^2 = 0.01 / 3 with 3. Together 0.01 with 0.01^2 / (2 / 2 + 1 / 3) / (0.01 / 3)^2 = 6.75.
TEST(PairedDifference, AddsTheVariancesOfSeedsAndRows) {
  const auto a = additive("a", {0.5, 0.6, 0.7}, {-0.1, 0.1, -0.1, 0.1});
  const auto b = additive("b", {0.2, 0.3, 0.4}, {0.0, 0.0, 0.0, 0.0});
  const Difference d = between(condition("", Metric::kAccuracy, {a, b}));
  EXPECT_NEAR(d.value, 0.3, 1e-12);
  ASSERT_TRUE(d.interval && d.p);
  const double half = 0.1 * student_t_quantile(0.975, 6.75);
  EXPECT_NEAR(d.interval->low, 0.3 - half, 1e-9);
  EXPECT_NEAR(d.interval->high, 0.3 + half, 1e-9);
  EXPECT_NEAR(*d.p, student_t_p_value(3.0, 6.75), 1e-9);
  EXPECT_EQ(d.share_won, 1.0);
}

TEST(PairedDifference, TurnsRoundWithItsEncodings) {
  const auto a = additive("a", {0.5, 0.6, 0.7}, {-0.1, 0.1, -0.1, 0.1});
  const auto b = additive("b", {0.2, 0.3, 0.4}, {0.0, 0.0, 0.0, 0.0});
  const Difference d = between(condition("", Metric::kError, {a, b}));
  const Difference e = between(condition("", Metric::kError, {b, a}));
  EXPECT_NEAR(e.value, -d.value, 1e-12);
  EXPECT_NEAR(e.interval->low, -d.interval->high, 1e-12);
  EXPECT_EQ(e.share_won, 1.0 - d.share_won);
  EXPECT_EQ(d.share_won, 0.0) << "of errors the lower one wins";
}

TEST(PairedDifference, RowsThatAreHardForBothCancel) {
  const std::vector<double> hardness = {-0.3, 0.3, -0.2, 0.2, 0.1, -0.1};
  const auto a = additive("a", {1.0, 1.1, 1.2}, hardness);
  const auto b = additive("b", {2.0, 2.1, 2.2}, hardness);
  const auto flat = additive("b", {2.0, 2.1, 2.2}, std::vector<double>(6, 0.0));
  const Difference same = between(condition("", Metric::kBitsPerByte, {a, b}));
  const Difference other = between(condition("", Metric::kBitsPerByte, {a, flat}));
  // Welch alone: variances 0.01 / 3 twice, 4 degrees of freedom.
  const double half = std::sqrt(0.02 / 3.0) * student_t_quantile(0.975, 4.0);
  EXPECT_NEAR(same.interval->high - same.value, half, 1e-9);
  EXPECT_GT(other.interval->high - other.value, 1.2 * half);
}

// Both are right on the easy rows; a also on 4 % that are a little harder. On the same rows that decides;
// with b's rows in another order, the same figures decide nothing.
TEST(PairedDifference, PairingDecidesWhereRowsAreCorrelated) {
  Rng rng(5);
  EncodingScores encodings[3] = {{"a", {}}, {"b", {}}, {"b shuffled", {}}};
  for (int seed = 0; seed < 5; ++seed) {
    RunScores of_a{.seed = seed, .rows = {}};
    RunScores of_b = of_a;
    for (int row = 0; row < 200; ++row) {
      const double slip = rng.uniform() < 0.01 ? 1.0 : 0.0;
      of_a.rows.push_back({row < 144 ? 1.0 - slip : 0.0, 1.0});
      of_b.rows.push_back({row < 132 ? 1.0 - slip : 0.0, 1.0});
    }
    encodings[0].runs.push_back(of_a);
    encodings[1].runs.push_back(of_b);
    std::rotate(of_b.rows.begin(), of_b.rows.begin() + 66, of_b.rows.end());
    encodings[2].runs.push_back(of_b);
  }
  const Difference paired = between(condition("", Metric::kAccuracy, {encodings[0], encodings[1]}));
  const Difference shuffled =
      between(condition("", Metric::kAccuracy, {encodings[0], encodings[2]}));
  EXPECT_NEAR(paired.value, shuffled.value, 1e-12);
  EXPECT_LT(*paired.p, 0.001);
  EXPECT_GT(*shuffled.p, 0.2);
}

TEST(PairedDifference, SeedsAreNotPaired) {
  const std::vector<double> rows = {0.0, 0.1, -0.1};
  const auto a = additive("a", {1.0, 1.5, 2.0}, rows);
  const auto b = additive("b", {1.1, 1.6, 2.1}, rows);
  const auto reordered = additive("b", {2.1, 1.1, 1.6}, rows);
  const Difference d = between(condition("", Metric::kBitsPerByte, {a, b}));
  EXPECT_GT(*d.p, 0.5);
  EXPECT_NEAR(*d.p, *between(condition("", Metric::kBitsPerByte, {a, reordered})).p, 1e-12);
}

TEST(PairedDifference, RowsOfOneClusterCountOnce) {
  ConditionScores once = condition(
      "", Metric::kBitsPerByte,
      {additive("a", {1.0, 1.1, 1.2}, {-0.1, 0.2, -0.1}), additive("b", {2, 2, 2}, {0, 0, 0})});
  ConditionScores often =
      condition("", Metric::kBitsPerByte,
                {additive("a", {1.0, 1.1, 1.2}, {-0.1, 0.2, -0.1, -0.1, 0.2, -0.1}),
                 additive("b", {2, 2, 2}, {0, 0, 0, 0, 0, 0})});
  const double wide = between(once).interval->high;
  EXPECT_LT(between(often).interval->high, wide - 0.01);
  often.clusters = {7, 8, 9, 7, 8, 9};
  EXPECT_NEAR(between(often).interval->high, wide, 1e-12);
}

TEST(PairedDifference, RowsWithoutWeightAreNoUnits) {
  ConditionScores c = condition(
      "", Metric::kBitsPerByte,
      {additive("a", {1.0, 1.1, 1.2}, {-0.1, 0.2, -0.1}), additive("b", {2, 2, 2}, {0, 0, 0})});
  const double high = between(c).interval->high;
  for (EncodingScores& e : c.encodings) {
    for (RunScores& run : e.runs) run.rows.push_back({0.0, 0.0});
  }
  EXPECT_NEAR(between(c).interval->high, high, 1e-12);
}

TEST(PairedDifference, WithoutAScoredRowThereIsNoFigure) {
  ConditionScores c =
      condition("", Metric::kAccuracy, {encoding("a", {0, 0, 0}, 2), encoding("b", {0, 0, 0}, 2)});
  for (EncodingScores& e : c.encodings) {
    for (RunScores& run : e.runs) run.rows.assign(2, {0.0, 0.0});
  }
  EXPECT_TRUE(std::isnan(between(c).value));
  EXPECT_FALSE(between(c).interval || between(c).p);
}

TEST(PairedDifference, EqualRowsKeepTheDoubtAboutTheNextOne) {
  const auto all_right = encoding("a", {1, 1, 1}, 62);
  const Difference none = between(condition("", Metric::kAccuracy, {all_right, all_right}));
  EXPECT_EQ(none.value, 0.0);
  EXPECT_EQ(*none.p, 1.0);
  EXPECT_NEAR(none.interval->high, student_t_quantile(0.975, 61.0) / 64.0, 1e-9);
  EXPECT_NEAR(none.interval->low, -none.interval->high, 1e-12);
  const Difference all =
      between(condition("", Metric::kAccuracy, {all_right, encoding("b", {0, 0, 0}, 62)}));
  EXPECT_EQ(all.interval->high, 1.0) << "a difference of shares is at most 1";
  EXPECT_LT(all.interval->low, 0.98);
}

// Seeds: 0.01 / 3 each with 2 degrees of freedom. Rows: 1 / (8 + 2)^2 with 7.
TEST(PairedDifference, EqualRowsAddTheirDoubtToThatOfTheSeeds) {
  const Difference d =
      between(condition("", Metric::kAccuracy,
                        {encoding("a", {0.5, 0.6, 0.7}, 8), encoding("b", {0.2, 0.3, 0.4}, 8)}));
  const double seeds = 0.01 / 3.0;
  const double rows = 0.01;
  const double variance = 2.0 * seeds + rows;
  const double freedom = variance * variance / (seeds * seeds + rows * rows / 7.0);
  ASSERT_TRUE(d.interval);
  EXPECT_NEAR(d.value - d.interval->low, student_t_quantile(0.975, freedom) * std::sqrt(variance),
              1e-9);
}

TEST(PairedDifference, BitsWithoutAnySpreadHaveNoInterval) {
  const Difference d = between(condition(
      "", Metric::kBitsPerByte, {encoding("a", {2, 2, 2}, 4), encoding("b", {3, 3, 3}, 4)}));
  EXPECT_EQ(d.value, -1.0);
  EXPECT_FALSE(d.interval || d.p);
}

// 61 of 62 right in every seed, each time another row: no spread of seeds, and none of rows that seeds share.
TEST(PairedDifference, SeedsThatMissOtherRowsStillDiffer) {
  auto almost = encoding("a", {1, 1, 1}, 62);
  for (std::size_t seed = 0; seed < 3; ++seed) almost.runs[seed].rows[seed].total = 0.0;
  const Difference d =
      between(condition("", Metric::kAccuracy, {almost, encoding("b", {0, 0, 0}, 62)}));
  ASSERT_TRUE(d.interval && d.p);
  EXPECT_LT(*d.p, 1e-6);
  EXPECT_NEAR(d.value - d.interval->low, student_t_quantile(0.975, 61.0) / 64.0, 1e-6);
}

TEST(PairedDifference, BitsOfOneDocumentHaveNoInterval) {
  ConditionScores c = condition("", Metric::kBitsPerByte,
                                {encoding("a", {2.0, 2.1, 2.2}, 4), encoding("b", {3, 3.1, 3}, 4)});
  c.encodings[0].runs[0].rows[0].total = 2.5;
  c.clusters = {7, 7, 7, 7};
  EXPECT_FALSE(between(c).interval || between(c).p);
  c.clusters = {7, 7, 8, 8};
  EXPECT_TRUE(between(c).interval && between(c).p);
}

TEST(PairedDifference, TwoSeedsArePoints) {
  const Difference d = between(condition(
      "", Metric::kAccuracy, {encoding("a", {0.9, 0.91}), encoding("b", {0.1, 0.11, 0.12})}));
  EXPECT_NEAR(d.value, 0.795, 1e-12);
  EXPECT_FALSE(d.interval || d.p);
}

TEST(PairedDifference, AFailedRunCountsAsTheWorstShare) {
  const auto with = [](Metric metric) {
    return between(
        condition("", metric,
                  {encoding("a", {0.5, 0.5, kFailed, 0.5}), encoding("b", {0.5, 0.5, 0.5, 0.5})}));
  };
  EXPECT_NEAR(with(Metric::kAccuracy).value, -0.125, 1e-12);
  EXPECT_NEAR(with(Metric::kError).value, 0.125, 1e-12);
  EXPECT_TRUE(with(Metric::kError).interval);
}

TEST(PairedDifference, AFailedRunOfBitsLeavesTheRanks) {
  const Difference d = between(condition(
      "", Metric::kBitsPerByte,
      {encoding("a", {1.1, 1.2, 1.3, 1.4, 1.5}), encoding("b", {1.6, 1.7, 1.8, kFailed, 1.9})}));
  EXPECT_FALSE(d.interval);
  EXPECT_TRUE(d.by_rank);
  EXPECT_NEAR(*d.p, 2.0 / 252.0, 1e-12);
  EXPECT_EQ(d.share_won, 1.0);
  EXPECT_FALSE(std::isfinite(d.value));
}

TEST(PairedDifference, AnInfiniteSumIsAFailure) {
  EncodingScores broken = encoding("a", {1.0}, 3);
  broken.runs[0].rows[1].total = std::nan("");
  EXPECT_TRUE(broken.runs[0].is_failure());
  EXPECT_EQ(run_value(broken.runs[0], Metric::kAccuracy), 0.0);
}

TEST(PairedDifference, OtherRowsAreAnError) {
  ConditionScores c = condition("", Metric::kAccuracy,
                                {encoding("a", {1, 1, 1}, 8), encoding("rope", {1, 1, 1}, 8)});
  c.encodings[1].runs[2].rows[3].weight = 2.0;
  EXPECT_EQ(
      error_of([&] { between(c); }),
      "[rope seed 2] rows must be the 8 rows that the other runs were scored on but got 8 rows; "
      "evaluate all runs with the same eval fields: posenc eval");
  c.encodings[1] = encoding("rope", {1, 1, 1}, 9);
  EXPECT_NE(error_of([&] { between(c); }).find("9 rows"), std::string::npos);
  c.encodings[1] = encoding("rope", {1, 1, 1}, 8);
  EXPECT_EQ(error_of([&] { between(c); }), "");
  c.clusters = {1, 2};
  EXPECT_NE(error_of([&] { between(c); }), "");
}

}  // namespace
}  // namespace posenc::statistics
