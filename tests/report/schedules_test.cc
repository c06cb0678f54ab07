// Runs evaluated under several RoPE schedules: each is a row of its own, in tables and in tests.
#include <gtest/gtest.h>

#include <algorithm>

#include "report/charts.h"
#include "report/compare.h"
#include "report/html.h"
#include "report/opening.h"
#include "report/run_case.h"
#include "report/tables.h"
#include "report/words.h"

namespace posenc::report {
namespace {

using testing::CaseRow;
using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

struct Scheduled {
  std::string name;  // empty: the model's own
  double at_2x = 0.0;
  double at_4x = 0.0;
};

void write_seeds(const TemporaryFolder& folder, const std::string& encoding,
                 const std::vector<Scheduled>& schedules, int seeds = 5) {
  for (int seed = 0; seed < seeds; ++seed) {
    const double off = 0.005 * (seed - 2);
    CaseRun run{.encoding = encoding, .seed = seed, .rows = {{"train", 1, 0.95 + off, 0.9, 1.0}}};
    run.rows.push_back({"longer", 1, 0.95 + off, 0.9, 1.0});
    for (const Scheduled& s : schedules) {
      run.rows.push_back(
          {.axis = "longer", .factor = 2, .value = s.at_2x + off, .schedule = s.name});
      run.rows.push_back(
          {.axis = "longer", .factor = 4, .value = s.at_4x + off, .schedule = s.name});
    }
    write_run(folder / fmt::format("{}-{}", encoding, seed), run);
  }
}

// RoPE fails at 2x; YaRN carries it further than ALiBi goes.
class ScheduledRows : public ::testing::Test {
 protected:
  ScheduledRows() {
    write_seeds(folder_, "alibi", {{"", 0.6, 0.5}});
    write_seeds(folder_, "rope", {{"", 0.1, 0.1}, {"ntk", 0.3, 0.2}, {"yarn", 0.92, 0.91}});
    comparison_ = compare(find_runs({folder_.path()}));
  }
  [[nodiscard]] const TaskTable& table() const { return comparison_.tasks.at(0); }
  [[nodiscard]] const Entry& rope() const { return table().entries.at(1); }
  [[nodiscard]] std::string findings() const {
    std::string text;
    for (const statistics::Finding& finding : table().findings) text += finding.text + "\n";
    return text;
  }

  TemporaryFolder folder_;
  Comparison comparison_;
};

TEST_F(ScheduledRows, AreRowsOfTheirEncoding) {
  const auto tables = text_tables(comparison_, CurveLetters::kDigits);
  ASSERT_EQ(tables[0].rows.size(), 3U) << "trained models, and chance";
  std::vector<std::string> names;
  for (const auto& row : tables[1].rows) names.push_back(row[0]);
  EXPECT_EQ(names,
            (std::vector<std::string>{"alibi", "rope", "rope, ntk", "rope, yarn", "chance"}));
  EXPECT_EQ(tables[1].rows[3][1].rfind("95.0 [", 0), 0U)
      << "up to the trained length it is the same model: " << tables[1].rows[3][1];
}

TEST_F(ScheduledRows, AreTestedAgainstEveryOtherRow) {
  const std::string said = findings();
  EXPECT_NE(said.find("rope with yarn is ahead at 2x of alibi by 32 points"), std::string::npos)
      << said;
  EXPECT_NE(said.find("rope with ntk"), std::string::npos) << said;
  EXPECT_EQ(said.find("in domain of"), std::string::npos)
      << "a schedule has no row there: " << said;
}

TEST_F(ScheduledRows, MayBeTheBestBeyondTraining) {
  const auto best = std::find_if(table().best.begin(), table().best.end(), [](const BackedBest& b) {
    return b.merit == Merit::kBeyondTraining;
  });
  ASSERT_NE(best, table().best.end());
  EXPECT_EQ(best->entry, 1U);
  EXPECT_EQ(best->schedule, "yarn");
  EXPECT_EQ(best->support, "ahead of every other encoding at 2x and at 4x");
  EXPECT_NEAR(*beyond_training(table(), rope(), "yarn"), 0.915, 1e-9);
  EXPECT_NEAR(*beyond_training(table(), rope()), 0.1, 1e-9);
  EXPECT_NE(outcome_text(table()).find("rope with yarn gets 92 %"), std::string::npos)
      << outcome_text(table());
}

TEST_F(ScheduledRows, HaveAnEffectiveLengthFromTheTrainedLengthOn) {
  EXPECT_EQ(effective_of(rope(), "longer", "yarn")->median, 4 * testing::kTrainedLength);
  EXPECT_EQ(effective_of(rope(), "longer", "ntk")->median, testing::kTrainedLength);
  EXPECT_EQ(effective_of(rope(), "longer", "")->median, testing::kTrainedLength);
}

TEST_F(ScheduledRows, HaveColoursOfTheirOwnAfterTheEncodings) {
  const SeriesColors colors(comparison_);
  EXPECT_EQ(colors.of("alibi"), 0);
  EXPECT_EQ(colors.of("rope"), 1);
  EXPECT_EQ(colors.of("rope, ntk"), 2);
  EXPECT_EQ(colors.of("rope, yarn"), 3);
  const auto figure = length_figure(table(), colors);
  ASSERT_TRUE(figure);
  EXPECT_TRUE(
      std::any_of(figure->panels[0].curves.begin(), figure->panels[0].curves.end(),
                  [](const draw::Curve& c) { return c.name == "rope, yarn" && c.color == 3; }));
}

TEST_F(ScheduledRows, StandInThePage) {
  const std::string page = html_report({.runs = find_runs({folder_.path()}),
                                        .compare = {},
                                        .title = "",
                                        .command = "posenc report"});
  EXPECT_NE(page.find("<code>rope, yarn</code>"), std::string::npos);
  EXPECT_NE(page.find("<code>rope, ntk</code>"), std::string::npos);
  EXPECT_EQ(page.find("rope as yarn"), std::string::npos);
}

bool is_ahead(double lead, const std::vector<Scheduled>& more) {
  const TemporaryFolder folder;
  write_seeds(folder, "alibi", {{"", 0.5 + lead, 0.5}}, 3);
  std::vector<Scheduled> rope = {{"", 0.5, 0.5}};
  rope.insert(rope.end(), more.begin(), more.end());
  write_seeds(folder, "rope", rope, 3);
  const TaskTable table = compare(find_runs({folder.path()})).tasks.at(0);
  for (const statistics::Finding& finding : table.findings) {
    const bool over_rope = finding.text.find("alibi is ahead") != std::string::npos;
    if (over_rope && finding.text.find("at 2x") != std::string::npos) return true;
  }
  return false;
}

// The smallest lead that tests separate gets lost among more rows: each pair is a question more.
TEST(ScheduledTests, AreCountedByHolm) {
  double lead = 0.0;
  while (lead < 0.4 && !is_ahead(lead, {})) lead += 0.005;
  ASSERT_GT(lead, 0.0);
  ASSERT_LT(lead, 0.4);
  EXPECT_FALSE(is_ahead(lead, {{"ntk", 0.5, 0.5}, {"yarn", 0.5, 0.5}, {"linear", 0.5, 0.5}}));
  EXPECT_TRUE(is_ahead(0.4, {{"ntk", 0.5, 0.5}, {"yarn", 0.5, 0.5}, {"linear", 0.5, 0.5}}));
}

// A condition at the trained length has the model's own row alone, and YaRN stays the best there.
TEST(ScheduledTests, ABestUnderAScheduleIsTheModelItselfUpToTheTrainedLength) {
  const TemporaryFolder folder;
  for (const char* encoding : {"alibi", "rope"}) {
    for (int seed = 0; seed < 5; ++seed) {
      const double off = 0.005 * (seed - 2);
      const bool rope = std::string(encoding) == "rope";
      CaseRun run{.encoding = encoding, .seed = seed};
      run.rows = {{.axis = "sparse", .value = 0.7 + off, .shifted = true},
                  {.axis = "longer", .factor = 2, .value = (rope ? 0.1 : 0.6) + off}};
      if (rope) {
        run.rows.push_back({.axis = "longer", .factor = 2, .value = 0.9 + off, .schedule = "yarn"});
      }
      write_run(folder / fmt::format("{}-{}", encoding, seed), run);
    }
  }
  const TaskTable table = compare(find_runs({folder.path()})).tasks.at(0);
  ASSERT_EQ(table.best.size(), 1U);
  EXPECT_EQ(table.best[0].schedule, "yarn");
  EXPECT_EQ(table.best[0].support,
            "ahead of every other encoding on longer at 2x; nothing is ahead of it on sparse");
}

TEST(ScheduledTests, ResultsFromBeforeSchedulesAreOfTheSameEvaluation) {
  Results before;
  before.eval = parse_json(R"({"samples": 40})", "before");
  Results after;
  after.eval = parse_json(R"({"samples": 40, "schedules": "none"})", "after");
  EXPECT_EQ(eval_fields(before), eval_fields(after));
  after.eval = parse_json(R"({"samples": 40, "schedules": "yarn"})", "after");
  EXPECT_NE(eval_fields(before), eval_fields(after));
}

}  // namespace
}  // namespace posenc::report
