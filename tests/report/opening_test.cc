// What a newcomer reads first.
#include "report/opening.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/page_case.h"

namespace posenc::report {
namespace {

using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

CaseRun copying(const std::string& encoding, int seed, double error, double beyond) {
  return {.encoding = encoding,
          .seed = seed,
          .task = "selective_copy",
          .metric = Metric::kError,
          .rows = {{.axis = "train", .value = error},
                   {.axis = "sparse", .value = beyond, .shifted = true},
                   {.axis = "longer", .factor = 2, .value = beyond + 0.02}},
          .row_metric = true};
}

class Openings : public ::testing::Test {
 protected:
  Openings() {
    write_run(folder_ / "0", copying("rope", 0, 0.01, 0.97));
    write_run(folder_ / "1", copying("rope", 1, 0.03, 0.95));
    write_run(folder_ / "2", copying("alibi", 0, 0.0, 0.10));
    comparison_ = compare(find_runs({folder_.path()}));
  }
  [[nodiscard]] const TaskTable& table() const { return comparison_.tasks[0]; }

  TemporaryFolder folder_;
  Comparison comparison_;
};

TEST_F(Openings, SayWhatCameOutInShares) {
  EXPECT_EQ(outcome_text(table()),
            "Each model was trained on rows of 32 positions. On such rows they get 98 to 100 % of "
            "the rows right. On rows unlike those of training (sparse, 2x as long) alibi gets 89 % "
            "of the rows right, rope 3 %.");
}

TEST_F(Openings, ShowARowOfTheTask) {
  std::vector<std::string> remarks;
  const auto question = question_of(table(), read_details(comparison_, remarks));
  ASSERT_TRUE(question);
  EXPECT_EQ(question->text, "the symbols of the row in order, without its blanks");
  EXPECT_NE(question->row.find(" | "), std::string::npos) << question->row;
  const auto sparse = std::find_if(question->axes.begin(), question->axes.end(),
                                   [](const tasks::Axis& axis) { return axis.name == "sparse"; });
  ASSERT_NE(sparse, question->axes.end());
  const std::string page = testing::page_of(folder_.path());
  EXPECT_NE(page.find("<li><strong>sparse</strong>: " + sparse->doc + "</li>"), std::string::npos);
  EXPECT_EQ(page.find("<strong>dense</strong>"), std::string::npos) << "no row was tested on it";
  EXPECT_FALSE(question_of(table(), {})) << "no config, no question";
}

TEST_F(Openings, DrawEverySeedOfEveryCondition) {
  const auto figure = outcome_figure(table(), SeriesColors(comparison_));
  ASSERT_TRUE(figure);
  draw::validate(*figure);
  const draw::Panel& panel = figure->panels[0];
  EXPECT_EQ(panel.x.words, (std::vector<std::string>{"as trained", "sparse", "2x as long"}));
  ASSERT_EQ(panel.curves.size(), 2U);
  EXPECT_EQ(panel.curves[0].name, "rope");
  ASSERT_EQ(panel.curves[0].y.size(), 6U);
  EXPECT_NEAR(panel.curves[0].y[0], 99.0, 1e-9) << "right, not wrong";
  EXPECT_NEAR(panel.curves[0].y[2], 3.0, 1e-9);
  EXPECT_LT(panel.curves[0].x[0], panel.curves[1].x[0]) << "side by side";
}

TEST(OpeningOf, RunsWithoutConditionsBeyondTrainingHasNoPicture) {
  const TemporaryFolder folder;
  write_run(folder / "0", {.rows = {{.axis = "train", .value = 0.5}}});
  const Comparison comparison = compare(find_runs({folder.path()}));
  EXPECT_EQ(outcome_text(comparison.tasks[0]),
            "Each model was trained on rows of 32 positions. On such rows they get 50 % of the "
            "answers right.");
  EXPECT_FALSE(outcome_figure(comparison.tasks[0], SeriesColors(comparison)));
}

TEST(OpeningOf, RunsThatFailedNamesThem) {
  const TemporaryFolder folder;
  write_run(folder / "0", copying("alibi", 0, 0.0, 0.004));
  write_run(folder / "1", {.encoding = "rope", .task = "selective_copy"},
            runs::RunState::kDiverged);
  const Comparison comparison = compare(find_runs({folder.path()}));
  const std::string text = outcome_text(comparison.tasks[0]);
  EXPECT_NE(text.find("they get 100 % of the rows right"), std::string::npos) << text;
  EXPECT_NE(text.find("alibi gets 99 % of the rows right"), std::string::npos) << text;
  EXPECT_NE(text.find("No figure there: rope. 1 of 2 runs diverged or failed."), std::string::npos)
      << text;
}

TEST(OpeningOf, TextSpeaksOfBits) {
  const TemporaryFolder folder;
  write_run(folder / "0", {.encoding = "rope",
                           .task = "language_model",
                           .metric = Metric::kBitsPerByte,
                           .rows = {{.axis = "train", .value = 1.5},
                                    {.axis = "longer", .factor = 2, .value = 1.75}}});
  const Comparison comparison = compare(find_runs({folder.path()}));
  EXPECT_EQ(outcome_text(comparison.tasks[0]),
            "Each model was trained on rows of 32 positions. On such rows they need 1.50 bits per "
            "byte. On rows unlike those of training (2x as long) rope needs 1.75 bits per byte.");
}

}  // namespace
}  // namespace posenc::report
