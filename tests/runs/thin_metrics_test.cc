#include "runs/thin_metrics.h"

#include <gtest/gtest.h>

#include "runs/pack_case.h"

namespace posenc::runs {
namespace {

using posenc::testing::metrics_row;

std::vector<std::int64_t> steps_of(const std::vector<Value>& rows, const std::string& kind) {
  std::vector<std::int64_t> steps;
  for (const Value& row : rows) {
    if (*row.find("kind")->get_if<std::string>() == kind) {
      steps.push_back(*row.find("step")->get_if<std::int64_t>());
    }
  }
  return steps;
}

// Steps 10, 20, ...: a train row each, and `conditions` eval rows every 100 steps.
std::vector<Value> rows_of(int steps, int conditions) {
  std::vector<Value> rows;
  for (int step = 10; step <= steps; step += 10) {
    rows.push_back(metrics_row("train", step));
    for (int c = 0; c < conditions && step % 100 == 0; ++c)
      rows.push_back(metrics_row("eval", step));
  }
  return rows;
}

TEST(ThinMetrics, KeepsAllThatFits) {
  const std::vector<Value> rows = rows_of(500, 2);
  EXPECT_EQ(thin_metrics(rows, 60), rows);
  EXPECT_TRUE(thin_metrics(rows, 0).empty());
  EXPECT_TRUE(thin_metrics({}, 5).empty());
}

TEST(ThinMetrics, SpreadsEvenlyUpToTheLastRow) {
  const std::vector<Value> thinned = thin_metrics(rows_of(1000, 0), 4);
  EXPECT_EQ(steps_of(thinned, "train"), (std::vector<std::int64_t>{250, 500, 750, 1000}));
}

TEST(ThinMetrics, KeepsEvaluationsBeforeTraining) {
  const std::vector<Value> thinned = thin_metrics(rows_of(1000, 1), 12);
  EXPECT_EQ(steps_of(thinned, "eval").size(), 10U);
  EXPECT_EQ(steps_of(thinned, "train"), (std::vector<std::int64_t>{500, 1000}));
}

TEST(ThinMetrics, KeepsTheConditionsOfAStepTogether) {
  const std::vector<Value> thinned = thin_metrics(rows_of(1000, 3), 8);
  EXPECT_EQ(steps_of(thinned, "eval"),
            (std::vector<std::int64_t>{500, 500, 500, 1000, 1000, 1000}));
  EXPECT_EQ(steps_of(thinned, "train"), (std::vector<std::int64_t>{500, 1000}));
}

TEST(ThinMetrics, KeepsTheLastRowOfEachKindAndNeverMoreThanAsked) {
  std::vector<Value> rows = rows_of(1000, 3);
  rows.insert(rows.begin(), metrics_row("note", 1));
  for (std::size_t most = 1; most <= rows.size(); ++most) {
    const std::vector<Value> thinned = thin_metrics(rows, most);
    EXPECT_LE(thinned.size(), most);
    EXPECT_EQ(steps_of(thinned, "eval").back(), 1000) << most;
    if (most < 3) continue;
    EXPECT_EQ(steps_of(thinned, "train").back(), 1000) << most;
    EXPECT_EQ(steps_of(thinned, "note").size(), 1U) << most;
  }
}

}  // namespace
}  // namespace posenc::runs
