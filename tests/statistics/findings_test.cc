// Sentences on made-up runs with known answers.
#include "statistics/findings.h"

#include <gtest/gtest.h>

#include "statistics/finding_words.h"
#include "statistics/score_case.h"

namespace posenc::statistics {
namespace {

using testing::condition;
using testing::encoding;
using testing::kFailed;
using Texts = std::vector<std::string>;

Texts texts(std::vector<ConditionScores> conditions) {
  Texts result;
  for (const Finding& finding : findings(TestedTable(std::move(conditions)))) {
    result.push_back(finding.text);
  }
  return result;
}

Texts texts_at_2x(Metric metric, std::vector<EncodingScores> encodings) {
  return texts({condition("at 2x", metric, std::move(encodings))});
}

TEST(Findings, AClearWin) {
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("rope", {0.02, 0.08, 0.05, 0.03, 0.10}),
                                            encoding("cope", {1.00, 0.97, 1.00, 0.99, 0.95})}),
            Texts{"cope is ahead of rope at 2x by 93 points [88, 97], 5 seeds."});
}

TEST(Findings, RunsThatAreEvaluatedInAnotherWayFailOnce) {
  EncodingScores rope = encoding("rope", {0.02, 0.08, 0.05, 0.03, kFailed});
  EncodingScores stretched = encoding("rope with yarn", {1.00, 0.97, 1.00, 0.99, kFailed});
  stretched.same_runs = true;
  std::string said;
  for (const std::string& text : texts_at_2x(Metric::kAccuracy, {rope, stretched})) said += text;
  EXPECT_NE(said.find("1 of 5 runs of rope diverged or failed"), std::string::npos) << said;
  EXPECT_EQ(said.find("runs of rope with yarn"), std::string::npos) << said;
}

TEST(Findings, ATie) {
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("kerple", {0.5, 0.6, 0.7, 0.6, 0.5}),
                                            encoding("none", {0.6, 0.5, 0.6, 0.7, 0.4})}),
            Texts{"No clear difference at 2x between kerple and none, 5 seeds."});
}

TEST(Findings, AThreeWayTie) {
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("kerple", {0.5, 0.6, 0.7, 0.6, 0.5}),
                                            encoding("alibi", {0.7, 0.6, 0.7, 0.6, 0.4}),
                                            encoding("none", {0.6, 0.5, 0.6, 0.7, 0.4})}),
            Texts{"No clear difference at 2x: nothing separates alibi, kerple and none, 5 seeds."});
}

TEST(Findings, TwoSeedsAreOnlyShown) {
  EXPECT_EQ(
      texts_at_2x(Metric::kAccuracy, {encoding("rope", {0.1, 0.12}), encoding("cope", {1, 0.98})}),
      Texts{"Too few seeds for a claim at 2x, 3 are needed: rope (10, 12) and cope (100, 98)."});
}

TEST(Findings, FewSeedsEverywhereAreSaidOnce) {
  const std::vector<EncodingScores> few = {encoding("rope", {0.1, 0.12}), encoding("cope", {0.98})};
  EXPECT_EQ(texts({condition("at 2x", Metric::kAccuracy, few),
                   condition("at 4x", Metric::kAccuracy, few)}),
            Texts{"Too few seeds for any claim: 3 are needed, no encoding has more than 2."});
}

TEST(Findings, OneDivergedSeedTakesTheWinAway) {
  const EncodingScores steady = encoding("alibi", {0.80, 0.82, 0.81, 0.79, 0.80});
  EXPECT_EQ(
      texts_at_2x(Metric::kAccuracy, {steady, encoding("cope", {0.99, 0.98, 1.0, 0.99, 0.98})}),
      Texts{"cope is ahead of alibi at 2x by 18 points [17, 20], 5 seeds."});
  EXPECT_EQ(
      texts_at_2x(Metric::kAccuracy, {steady, encoding("cope", {0.99, 0.98, kFailed, 0.99, 0.98})}),
      (Texts{"No clear difference at 2x between alibi and cope, 5 seeds.",
             "1 of 5 runs of cope diverged or failed; it counts as accuracy 0 %."}));
}

// Nine seeds in ten are perfect, one is at 61: that is not behind a steady 95.
TEST(Findings, ASkewedWinnerIsNoWinner) {
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("cope", {1, 1, 1, 0.61, 1}),
                                            encoding("rope", {0.94, 0.95, 0.95, 0.96, 0.95})}),
            Texts{"No clear difference at 2x between rope and cope, 5 seeds."});
}

// Selective counting at 8x, measured: four seeds look like a win of cope, seven do not decide it.
TEST(Findings, FourLuckySeedsAreNoWin) {
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("cope", {1, 1, 1, 0.95}),
                                            encoding("none", {0.72, 0.90, 0.48, 0.74}),
                                            encoding("rope", {0.23, 0, 0, 0.21})}),
            (Texts{"cope is ahead at 2x of rope by 88 points [68, 100], 4 seeds; nothing separates "
                   "it from none.",
                   "Against none at 2x, behind: rope by 60 points [33, 87].",
                   "4 seeds can miss what up to 53 % of trainings do, such as a rare failure."}));
  EXPECT_EQ(
      texts_at_2x(Metric::kAccuracy, {encoding("cope", {1, 1, 1, 0.95, 0.90, 0.78, 0.61}),
                                      encoding("none", {0.72, 0.90, 0.48, 0.74, 0.12, 0.98, 1})}),
      Texts{"No clear difference at 2x between cope and none, 7 seeds."});
}

TEST(Findings, OfErrorsTheLowerIsAhead) {
  EXPECT_EQ(texts_at_2x(Metric::kError, {encoding("rope", {0.23, 0.28, 0.18, 0.21, 0.25}),
                                         encoding("cope", {0, 0.06, 0, 0.01, 0.02})}),
            Texts{"cope is ahead of rope at 2x by 21 points of error [16, 26], 5 seeds (lower is "
                  "better)."});
}

TEST(Findings, BitsHaveTheirUnitAndTheirDigits) {
  EXPECT_EQ(texts_at_2x(Metric::kBitsPerByte, {encoding("rope", {2.10, 2.13, 2.08, 2.11, 2.12}),
                                               encoding("alibi", {1.90, 1.91, 1.88, 1.92, 1.89})}),
            Texts{"alibi is ahead of rope at 2x by 0.21 bits per byte [0.18, 0.23], 5 seeds "
                  "(lower is better)."});
}

TEST(Findings, ADivergedRunOfBitsIsRankedLast) {
  EXPECT_EQ(
      texts_at_2x(Metric::kBitsPerByte, {encoding("rope", {2.10, 2.13, kFailed, 2.11, 2.12}),
                                         encoding("alibi", {1.90, 1.91, 1.88, 1.92, 1.89})}),
      (Texts{"alibi is ahead of rope at 2x in 25 of 25 pairs of runs, 5 seeds (lower is better).",
             "1 of 5 runs of rope diverged or failed; compared by rank, with no mean and no "
             "interval."}));
}

TEST(Findings, TheFirstOfManyAndTheReference) {
  EXPECT_EQ(
      texts_at_2x(Metric::kAccuracy, {encoding("none", {0.40, 0.42, 0.41, 0.43, 0.39}),
                                      encoding("cope", {0.97, 0.98, 0.99, 0.98, 0.97}),
                                      encoding("fire", {0.96, 0.99, 0.98, 0.97, 0.98}),
                                      encoding("rope", {0.12, 0.10, 0.11, 0.09, 0.10}),
                                      encoding("kerple", {0.41, 0.40, 0.42, 0.44, 0.41})}),
      (Texts{"cope is ahead at 2x of kerple by 56 points [54, 58], none by 57 points [55, 59] "
             "and rope by 87 points [86, 89], 5 seeds; nothing separates it from fire.",
             "Against none at 2x, ahead: fire by 57 points [55, 59]; behind: rope by 31 points "
             "[29, 33]; no clear difference: kerple."}));
}

TEST(Findings, AnotherReferenceIsHeldAgainst) {
  const TestedTable table({condition("at 2x", Metric::kAccuracy,
                                     {encoding("cope", {0.97, 0.98, 0.99, 0.98, 0.97}),
                                      encoding("rope", {0.12, 0.10, 0.11, 0.09, 0.10}),
                                      encoding("none", {0.41, 0.40, 0.42, 0.44, 0.41})})});
  const std::vector<Finding> found = findings(table, {.reference = "rope"});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].place, "at 2x");
  EXPECT_EQ(found[1].text, "Against rope at 2x, ahead: none by 31 points [29, 33].");
}

TEST(Findings, EightEncodingsMakeTwoSentences) {
  std::vector<EncodingScores> encodings = {encoding("none", {0.30, 0.31, 0.32, 0.31, 0.30})};
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
    encodings.push_back(encoding(name, {0.50, 0.51, 0.52, 0.51, 0.50}));
  }
  encodings.push_back(encoding("g", {0.90, 0.91, 0.92, 0.91, 0.90}));
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, encodings),
            (Texts{"g is ahead at 2x of a, b, c, d, e, f and none (the closest, a, by 40 points "
                   "[39, 41]), 5 seeds.",
                   "Against none at 2x, ahead: a, b, c, d, e and f (the closest, f, by 20 points "
                   "[19, 21])."}));
}

TEST(Findings, AFirstThatNothingFollowsIsNotTheOnlyNews) {
  // The first varies too much to be told apart; the steady second and third are.
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("cope", {1, 1, 1, 0.61, 0.9}),
                                            encoding("fire", {0.86, 0.87, 0.86, 0.87, 0.86}),
                                            encoding("none", {0.80, 0.81, 0.80, 0.81, 0.80})}),
            (Texts{"cope comes first at 2x, but nothing separates it from fire and none, 5 seeds.",
                   "Against none at 2x, ahead: fire by 6.0 points [5.2, 6.8]."}));
}

TEST(Findings, FailuresAreToldOnceForTheTable) {
  const std::vector<EncodingScores> encodings = {encoding("a", {kFailed, 0.3, 0.4, kFailed}),
                                                 encoding("b", {0.3, 0.4, 0.2}),
                                                 encoding("c", {0.5})};
  const Texts all = texts({condition("at 2x", Metric::kError, encodings),
                           condition("at 4x", Metric::kError, encodings)});
  EXPECT_EQ(all, (Texts{"No clear difference at 2x between b and a, 3 to 4 seeds.",
                        "Too few seeds for a claim at 2x, 3 are needed: c (50).",
                        "No clear difference at 4x between b and a, 3 to 4 seeds.",
                        "Too few seeds for a claim at 4x, 3 are needed: c (50).",
                        "2 of 4 runs of a diverged or failed; each counts as error 100 %."}));
}

TEST(Findings, NothingToCompareIsNothingToSay) {
  EXPECT_EQ(texts({}), Texts{});
  EXPECT_EQ(texts_at_2x(Metric::kAccuracy, {encoding("a", {0.1, 0.2, 0.3})}), Texts{});
}

TEST(FindingWords, ABoundNearZeroDoesNotLookLikeZero) {
  const ConditionScores c = condition("", Metric::kAccuracy, {});
  PairTest test;
  test.difference.value = 0.063;
  test.difference.interval = {0.003, 0.123};
  EXPECT_EQ(margin_text(test, c, 25), "by 6.3 points [0.3, 12.3]");
}

}  // namespace
}  // namespace posenc::statistics
