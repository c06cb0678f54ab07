#include "statistics/tested_table.h"

#include <gtest/gtest.h>

#include "statistics/score_case.h"

namespace posenc::statistics {
namespace {

using testing::condition;
using testing::encoding;
using testing::kFailed;

TEST(Holm, AgreesWithAnExampleByHand) {
  // Sorted: 4 * 0.005, 3 * 0.01, 2 * 0.03, and 1 * 0.04 is raised to the one before.
  const std::vector<double> p = {0.01, 0.04, 0.03, 0.005};
  const std::vector<double> adjusted = holm(p);
  const std::vector<double> expected = {0.03, 0.06, 0.06, 0.02};
  for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(adjusted[i], expected[i], 1e-12) << i;
  EXPECT_EQ(holm(std::vector{0.7, 0.9}), (std::vector{1.0, 1.0}));
  EXPECT_TRUE(holm({}).empty());
}

ConditionScores pair_at(const std::string& place) {
  return condition(place, Metric::kAccuracy,
                   {encoding("a", {0.50, 0.60, 0.70, 0.65, 0.55}),
                    encoding("b", {0.40, 0.55, 0.50, 0.45, 0.35})});
}

// One question has p = 0.017. Asked at four places, nothing is left of it.
TEST(TestedTable, ManyQuestionsNeedMoreEvidence) {
  const TestedTable one({pair_at("at 2x")});
  EXPECT_TRUE(one.ahead(0, 0, 1));
  const double p = *one.test(0, 0, 1).difference.p;
  EXPECT_NEAR(p, 0.017, 1e-3);
  const TestedTable four({pair_at("at 2x"), pair_at("at 4x"), pair_at("at 8x"), pair_at("at 16x")});
  EXPECT_NEAR(four.test(3, 0, 1).adjusted_p, 4.0 * p, 1e-12);
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_FALSE(four.test(c, 0, 1).separated);
    EXPECT_FALSE(four.backed_best(c));
  }
}

TEST(TestedTable, PairsWithoutATestAreNoQuestions) {
  const ConditionScores two_seeds = condition(
      "", Metric::kAccuracy, {encoding("a", {0.9, 0.9}), encoding("b", {0.1, 0.1, 0.1, 0.1})});
  const TestedTable table({pair_at("at 2x"), two_seeds, two_seeds, two_seeds});
  EXPECT_TRUE(table.ahead(0, 0, 1));
  EXPECT_FALSE(table.test(1, 0, 1).separated);
  EXPECT_EQ(table.test(1, 0, 1).adjusted_p, 1.0);
  EXPECT_EQ(table.order(1), std::vector<std::size_t>{1}) << "two seeds have no place in the order";
  EXPECT_FALSE(table.backed_best(1)) << "a with two seeds may be better";
}

TEST(Metric, NamesAreThoseOfResults) {
  EXPECT_EQ(name_of(Metric::kAccuracy), "accuracy");
  EXPECT_EQ(name_of(Metric::kBitsPerByte), "bits_per_byte");
  EXPECT_TRUE(traits_of(Metric::kAccuracy).higher_better);
  EXPECT_FALSE(traits_of(Metric::kError).higher_better);
}

TEST(TestedTable, APairReadsTheOtherWayRound) {
  const TestedTable table({pair_at("at 2x")});
  const Difference forth = table.test(0, 0, 1).difference;
  const Difference back = table.test(0, 1, 0).difference;
  EXPECT_GT(forth.value, 0.0);
  EXPECT_EQ(back.value, -forth.value);
  EXPECT_EQ(back.interval->low, -forth.interval->high);
  EXPECT_EQ(back.interval->high, -forth.interval->low);
  EXPECT_EQ(back.share_won, 1.0 - forth.share_won);
  EXPECT_TRUE(table.test(0, 1, 0).separated);
  EXPECT_FALSE(table.ahead(0, 1, 0));
}

TEST(TestedTable, TheBestIsAheadOfAllOthersOrThereIsNone) {
  const EncodingScores good = encoding("cope", {0.98, 0.99, 0.97});
  const EncodingScores poor = encoding("rope", {0.10, 0.12, 0.11});
  const EncodingScores near = encoding("fire", {0.96, 0.99, 0.98});
  const auto best = [](std::vector<EncodingScores> encodings, Metric metric) {
    return TestedTable({condition("", metric, std::move(encodings))}).backed_best(0);
  };
  EXPECT_EQ(best({poor, good}, Metric::kAccuracy), 1U);
  EXPECT_EQ(best({poor, good}, Metric::kError), 0U) << "less error is better";
  EXPECT_EQ(best({poor, good, near}, Metric::kAccuracy), std::nullopt);
  EXPECT_EQ(best({good}, Metric::kAccuracy), std::nullopt) << "nothing to be better than";
  EXPECT_EQ(best({}, Metric::kAccuracy), std::nullopt);
}

TEST(TestedTable, SpeedHasOneRowPerRun) {
  const TestedTable table({condition(
      "", Metric::kTokensPerSecond,
      {encoding("none", {9900, 10000, 10100}, 1), encoding("cope", {7900, 8000, 8100}, 1)})});
  EXPECT_EQ(table.backed_best(0), 0U);
}

TEST(TestedTable, InfiniteMeansAreOrderedByTheMedianRun) {
  const TestedTable table({condition(
      "", Metric::kBitsPerByte,
      {encoding("b", {2.5, 2.6, 2.7, 2.8, 2.9}), encoding("a", {1.8, 1.9, kFailed, 1.7, 1.6}),
       encoding("c", {kFailed, kFailed, 2.0, 2.1, kFailed})})});
  EXPECT_EQ(table.order(0), (std::vector<std::size_t>{1, 0, 2}));
  EXPECT_TRUE(table.test(0, 1, 0).difference.by_rank);
  EXPECT_EQ(table.test(0, 1, 0).difference.share_won, 0.8);
}

// One run in ten fails; the other nine beat every run of b, and ranks say so although the mean is infinite.
TEST(TestedTable, ByRankAnInfiniteMeanCanBeAhead) {
  const TestedTable table(
      {condition("", Metric::kBitsPerByte,
                 {encoding("a", {1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, kFailed}),
                  encoding("b", {2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9, 3.0})})});
  EXPECT_TRUE(table.ahead(0, 0, 1));
  EXPECT_FALSE(table.ahead(0, 1, 0));
  EXPECT_EQ(table.backed_best(0), 0U);
}

}  // namespace
}  // namespace posenc::statistics
