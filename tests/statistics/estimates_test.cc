// Figures of the statistics against published tables, other formulas and simulation.
#include "statistics/estimates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "posenc/core/rng.h"

namespace posenc::statistics {
namespace {

// R. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
TEST(Wilson, AgreesWithThePublishedTable) {
  struct Row {
    double r, n, low, high;
  };
  for (const Row& row : {Row{81, 263, 0.2553, 0.3662}, Row{15, 148, 0.0624, 0.1605},
                         Row{0, 20, 0.0, 0.1611}, Row{1, 29, 0.0061, 0.1718}}) {
    const Interval interval = wilson(row.r / row.n, row.n);
    EXPECT_NEAR(interval.low, row.low, 5e-5) << row.r << "/" << row.n;
    EXPECT_NEAR(interval.high, row.high, 5e-5) << row.r << "/" << row.n;
  }
}

TEST(Wilson, SaysNothingWithoutSamplesAndHoldsTheEnds) {
  EXPECT_EQ(wilson(0.5, 0).low, 0.0);
  EXPECT_EQ(wilson(0.5, 0).high, 1.0);
  EXPECT_EQ(wilson(1.0, 512).high, 1.0);
  EXPECT_EQ(wilson(0.0, 512).low, 0.0);
  EXPECT_LT(wilson(1.0, 512).low, 0.993);
}

TEST(StudentT, AgreesWithTables) {
  struct Row {
    double p, nu, t;
  };
  for (const Row& row :
       {Row{0.975, 1, 12.7062047362}, Row{0.975, 2, 4.3026527297}, Row{0.975, 4, 2.7764451052},
        Row{0.975, 9, 2.2621571628}, Row{0.975, 30, 2.0422724563}, Row{0.95, 5, 2.0150483733},
        Row{0.75, 1, 1.0}, Row{0.025, 4, -2.7764451052}}) {
    EXPECT_NEAR(student_t_quantile(row.p, row.nu), row.t, 1e-8) << row.p << " " << row.nu;
  }
  EXPECT_NEAR(student_t_quantile(0.975, 1e7), 1.959964, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.5, 3), 0.0, 1e-12);
  EXPECT_TRUE(std::isnan(student_t_quantile(0.975, 0)));
}

std::vector<RowSum> one_position_rows(int correct, int n) {
  std::vector<RowSum> rows;
  for (int i = 0; i < n; ++i) rows.push_back({i < correct ? 1.0 : 0.0, 1.0});
  return rows;
}

TEST(ProportionOverRows, IsWilsonsWhereARowHasOnePosition) {
  const Estimate e = proportion_over_rows(one_position_rows(81, 263));
  const Interval plain = wilson(81.0 / 263, 263);
  EXPECT_DOUBLE_EQ(e.value, 81.0 / 263);
  EXPECT_NEAR(e.interval.low, plain.low, 2e-4);  // the variance divides by m - 1
  EXPECT_NEAR(e.interval.high, plain.high, 2e-4);
}

TEST(ProportionOverRows, RowsThatStandAndFallTogetherCountOnceEach) {
  std::vector<RowSum> rows;
  for (int i = 0; i < 100; ++i) rows.push_back({i < 40 ? 32.0 : 0.0, 32.0});
  const Estimate clustered = proportion_over_rows(rows);
  const Estimate single = proportion_over_rows(one_position_rows(40, 100));
  EXPECT_NEAR(clustered.interval.low, single.interval.low, 1e-9);
  EXPECT_NEAR(clustered.interval.high, single.interval.high, 1e-9);
}

TEST(ProportionOverRows, WithoutVarianceEveryRowIsOneTrial) {
  const std::vector<RowSum> rows(512, {31.0, 31.0});
  const Estimate e = proportion_over_rows(rows);
  EXPECT_EQ(e.value, 1.0);
  EXPECT_DOUBLE_EQ(e.interval.low, wilson(1.0, 512).low);
  EXPECT_TRUE(std::isnan(proportion_over_rows({}).value));
}

TEST(ProportionOverRows, RegularRowsAreNoBetterThanIndependentPositions) {
  const std::vector<RowSum> rows(50, {5.0, 10.0});  // exactly half of every row
  const std::vector<RowSum> nearly = [&] {
    auto copy = rows;
    copy[0].total = 6.0;
    return copy;
  }();
  const double p = 251.0 / 500;
  EXPECT_DOUBLE_EQ(proportion_over_rows(nearly).interval.low, wilson(p, 500).low);
}

// Rows of 8 positions with a success rate of their own: 95 % of the intervals hold the truth, where
// intervals that take positions for independent hold it far less often.
TEST(ProportionOverRows, CoversTheTruthInSimulation) {
  Rng rng(7);
  int covered = 0;
  int naive = 0;
  constexpr int kTrials = 600;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<RowSum> rows;
    for (int r = 0; r < 100; ++r) {
      const double rate = rng.uniform() < 0.5 ? 0.55 : 0.95;  // mean 0.75
      RowSum row{0.0, 8.0};
      for (int i = 0; i < 8; ++i) row.total += rng.uniform() < rate ? 1.0 : 0.0;
      rows.push_back(row);
    }
    const Estimate e = proportion_over_rows(rows);
    const Interval plain = wilson(e.value, 800);
    covered += e.interval.low <= 0.75 && 0.75 <= e.interval.high ? 1 : 0;
    naive += plain.low <= 0.75 && 0.75 <= plain.high ? 1 : 0;
  }
  EXPECT_GT(covered, kTrials * 0.925);
  EXPECT_LT(covered, kTrials * 0.975);
  EXPECT_LT(naive, kTrials * 0.87);
}

TEST(MeanOverRows, IsTheRatioWithStudentsInterval) {
  // Ratio 12/6 = 2; residuals 0, 1, -1: v = 3/2 * 2 / 36 = 1/12; t_2 = 4.30265.
  const std::vector<RowSum> rows = {{4, 2}, {5, 2}, {3, 2}};
  const Estimate e = mean_over_rows(rows);
  EXPECT_DOUBLE_EQ(e.value, 2.0);
  EXPECT_NEAR(e.interval.high - e.value, 4.3026527297 / std::sqrt(12.0), 1e-9);
  const std::vector<RowSum> one = {{4, 2}};
  EXPECT_EQ(mean_over_rows(one).value, 2.0);
  EXPECT_TRUE(std::isinf(mean_over_rows(one).interval.low)) << "one row shows no spread";
}

// The same mean by resampling rows: its value, and percentiles of 2.5 and 97.5 %.
Interval bootstrap(const std::vector<RowSum>& rows, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> draws;
  for (int draw = 0; draw < 2000; ++draw) {
    RowSum sum;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const RowSum& row = rows[static_cast<std::size_t>(rng.integer(0, std::ssize(rows) - 1))];
      sum.total += row.total;
      sum.weight += row.weight;
    }
    draws.push_back(sum.total / sum.weight);
  }
  std::sort(draws.begin(), draws.end());
  return {draws[50], draws[1949]};
}

TEST(MeanOverRows, AgreesWithABootstrapOfManyRows) {
  Rng rng(3);
  std::vector<RowSum> rows;
  for (int i = 0; i < 400; ++i) {
    const double weight = static_cast<double>(rng.integer(5, 20));
    rows.push_back({weight * (2.0 + 0.5 * rng.normal()), weight});
  }
  const Estimate formula = mean_over_rows(rows);
  const Interval drawn = bootstrap(rows, 1);
  const double width = formula.interval.high - formula.interval.low;
  EXPECT_NEAR(drawn.low, formula.interval.low, 0.08 * width);
  EXPECT_NEAR(drawn.high, formula.interval.high, 0.08 * width);
}

TEST(MeanOverSeeds, IsStudentsInterval) {
  const std::vector<double> three = {0.9, 0.8, 1.0};  // mean 0.9, s 0.1
  const Estimate e = mean_over_seeds(three);
  EXPECT_NEAR(e.value, 0.9, 1e-15);
  EXPECT_NEAR(e.interval.high, 0.9 + 4.3026527297 * 0.1 / std::sqrt(3.0), 1e-9);
  const std::vector<double> one = {0.7};
  EXPECT_EQ(mean_over_seeds(one).interval.high, 0.7);
  EXPECT_TRUE(std::isnan(mean_over_seeds({}).value));
}

TEST(CombineSeeds, AddsBothDoubtsInSquares) {
  const std::vector<Estimate> seeds = {
      {0.9, {0.86, 0.92}}, {0.8, {0.76, 0.82}}, {1.0, {0.96, 1.02}}};
  const double seed_half = 4.3026527297 * 0.1 / std::sqrt(3.0);
  const Estimate e = combine_seeds(seeds);
  EXPECT_NEAR(e.interval.low, 0.9 - std::hypot(seed_half, 0.04), 1e-9);
  EXPECT_NEAR(e.interval.high, 0.9 + std::hypot(seed_half, 0.02), 1e-9);
  EXPECT_EQ(clamp(e.interval, 0.0, 1.0).high, 1.0);
}

TEST(CombineSeeds, OneSeedKeepsItsInterval) {
  const std::vector<Estimate> one = {{0.75, {0.5, 0.875}}};
  EXPECT_DOUBLE_EQ(combine_seeds(one).interval.low, 0.5);
  EXPECT_DOUBLE_EQ(combine_seeds(one).interval.high, 0.875);
}

// Three seeds evaluated on the same rows: the rows' own luck is common to all three, so the interval
// over seeds alone misses the truth more often than one time in twenty.
TEST(CombineSeeds, CoversTheTruthWhenSeedsShareTheirRows) {
  Rng rng(11);
  int covered = 0;
  int seeds_alone = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> hardness(200);
    for (double& h : hardness) h = rng.uniform();
    std::vector<Estimate> seeds;
    std::vector<double> values;
    for (int s = 0; s < 3; ++s) {
      const double skill = 0.7 + 0.01 * rng.normal();
      std::vector<RowSum> rows;
      for (const double h : hardness) rows.push_back({h < skill ? 1.0 : 0.0, 1.0});
      seeds.push_back(proportion_over_rows(rows));
      values.push_back(seeds.back().value);
    }
    const Interval both = combine_seeds(seeds).interval;
    const Interval alone = mean_over_seeds(values).interval;
    covered += both.low <= 0.7 && 0.7 <= both.high ? 1 : 0;
    seeds_alone += alone.low <= 0.7 && 0.7 <= alone.high ? 1 : 0;
  }
  EXPECT_GT(covered, kTrials * 0.94);
  EXPECT_LT(seeds_alone, kTrials * 0.85);
}

TEST(EffectiveLength, StopsAtTheFirstFailure) {
  EXPECT_EQ(effective_length({{128, 0.95}, {64, 0.99}, {256, 0.4}, {512, 0.97}}, 0.9, true), 128);
  EXPECT_EQ(effective_length({{64, 0.89}, {128, 0.99}}, 0.9, true), 0);
  EXPECT_EQ(effective_length({{64, 0.001}, {128, 0.02}}, 0.01, false), 64);
  EXPECT_EQ(effective_length({{64, 0.9}}, 0.9, true), 64) << "reaching it is enough";
  EXPECT_EQ(effective_length({{64, std::nan("")}}, 0.9, true), 0);
  EXPECT_EQ(effective_length({}, 0.9, true), 0);
}

TEST(Ranks, EqualsShareTheirMean) {
  const std::vector<double> values = {0.5, 0.9, 0.9, std::nan(""), 0.1};
  EXPECT_EQ(ranks(values, true), (std::vector<double>{3, 1.5, 1.5, 5, 4}));
  EXPECT_EQ(ranks(values, false), (std::vector<double>{2, 3.5, 3.5, 5, 1}));
}

}  // namespace
}  // namespace posenc::statistics
