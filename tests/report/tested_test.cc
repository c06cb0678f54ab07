// Findings and bests, from runs whose answers are known.
#include <gtest/gtest.h>

#include <algorithm>

#include "report/compare.h"
#include "report/run_case.h"

namespace posenc::report {
namespace {

using testing::CaseRow;
using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

// In domain all are alike; beyond training the encodings have these means, seeds a little about them.
struct Case {
  std::string encoding;
  double at_2x = 0.0;
  double at_4x = 0.0;
  double speed = 1000.0;
};

CaseRun run_of(const Case& c, int seed) {
  const double off = 0.005 * (seed - 2);
  return {.encoding = c.encoding,
          .seed = seed,
          .tokens_per_s = c.speed + 3.0 * seed,
          .rows = {{"train", 1, 0.95 + off, 0.9, 1.0},
                   {"longer", 1, 0.95 + off, 0.9, 1.0},
                   {"longer", 2, c.at_2x + off, 0.0, 1.0},
                   {"longer", 4, c.at_4x + off, 0.0, 1.0}}};
}

void write_case(const TemporaryFolder& folder, const Case& c, int seeds = 5) {
  for (int seed = 0; seed < seeds; ++seed) {
    write_run(folder / fmt::format("{}-{}", c.encoding, seed), run_of(c, seed));
  }
}

TaskTable table_in(const TemporaryFolder& folder) {
  return compare(find_runs({folder.path()})).tasks.at(0);
}

std::string all_findings(const TaskTable& table) {
  std::string text;
  for (const statistics::Finding& finding : table.findings) text += finding.text + "\n";
  return text;
}

bool notes_say(const TaskTable& table, const std::string& part) {
  return std::any_of(table.notes.begin(), table.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

const BackedBest* best_at(const TaskTable& table, Merit merit) {
  const auto found = std::find_if(table.best.begin(), table.best.end(),
                                  [&](const BackedBest& best) { return best.merit == merit; });
  return found == table.best.end() ? nullptr : &*found;
}

TEST(Findings, SayWhoIsAheadAndWhereThatIsOpen) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.3});
  write_case(folder, {"rope", 0.1, 0.3});
  const TaskTable table = table_in(folder);
  const std::string said = all_findings(table);
  EXPECT_NE(said.find("cope is ahead of rope at 2x by 80 points"), std::string::npos) << said;
  EXPECT_NE(said.find("No clear difference at 4x between"), std::string::npos) << said;
  EXPECT_NE(said.find("No clear difference in domain between"), std::string::npos) << said;
  EXPECT_EQ(said.find("1x"), std::string::npos) << "the axis at 1x repeats the in-domain condition";
}

TEST(Findings, BackTheBestAndNothingElse) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.3, 1000.0});
  write_case(folder, {"rope", 0.1, 0.3, 1500.0});
  write_case(folder, {"none", 0.2, 0.3, 2000.0});
  const TaskTable table = table_in(folder);
  EXPECT_EQ(best_at(table, Merit::kInDistribution), nullptr) << "nothing separates them there";
  const BackedBest* beyond = best_at(table, Merit::kBeyondTraining);
  ASSERT_NE(beyond, nullptr);
  EXPECT_EQ(table.entries[beyond->entry].encoding, "cope");
  EXPECT_EQ(beyond->support, "ahead of every other encoding at 2x; nothing is ahead of it at 4x");
  const BackedBest* fastest = best_at(table, Merit::kSpeed);
  ASSERT_NE(fastest, nullptr);
  EXPECT_EQ(table.entries[fastest->entry].encoding, "none");
  EXPECT_NE(all_findings(table).find("none is ahead in training speed of"), std::string::npos);
}

TEST(Findings, ABestThatAnotherConditionRefutesIsNone) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.1});
  write_case(folder, {"rope", 0.1, 0.9});
  EXPECT_EQ(best_at(table_in(folder), Merit::kBeyondTraining), nullptr);
}

TEST(Findings, FewSeedsMakeNoClaim) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.3}, 2);
  write_case(folder, {"rope", 0.1, 0.3}, 2);
  const TaskTable table = table_in(folder);
  EXPECT_TRUE(table.best.empty());
  const std::string said = all_findings(table);
  EXPECT_EQ(said.find("ahead"), std::string::npos) << said;
  EXPECT_NE(said.find("Too few seeds for any claim: 3 are needed, no encoding has more than 2."),
            std::string::npos)
      << said;
}

TEST(Findings, SpeedsOfDifferentMachinesAreNotCompared) {
  const TemporaryFolder folder;
  write_case(folder, {"none", 0.2, 0.3, 2000.0});
  for (int seed = 0; seed < 5; ++seed) {
    CaseRun run = run_of({"rope", 0.1, 0.3, 1000.0}, seed);
    run.cpu = seed == 4 ? "large" : "tiny";
    write_run(folder / fmt::format("rope-{}", seed), run);
  }
  const TaskTable table = table_in(folder);
  EXPECT_EQ(best_at(table, Merit::kSpeed), nullptr);
  EXPECT_EQ(all_findings(table).find("speed"), std::string::npos);
}

TEST(Findings, RunsWithoutRowsOfTheirEvaluationTakeNoPart) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.9});
  write_case(folder, {"rope", 0.1, 0.1});
  std::filesystem::remove(folder / "rope-0/scores.bin");
  runs::RunTallies other = testing::scores_of(run_of({"rope", 0.1, 0.1}, 1));
  other.evaluation_hash = "another";
  runs::write_scores(folder / "rope-1/scores.bin", other);
  testing::write_content(folder / "rope-2/scores.bin", "PSNCROWS damaged");
  const TaskTable table = table_in(folder);
  EXPECT_TRUE(notes_say(table, "seed 0 of rope: it has no scores.bin"));
  EXPECT_TRUE(notes_say(table, "seed 1 of rope: it has a scores.bin of another evaluation"));
  EXPECT_TRUE(notes_say(table, "seed 2 of rope: it has a scores.bin that cannot be read"));
  const std::string said = all_findings(table);
  EXPECT_EQ(said.find("cope is ahead"), std::string::npos) << "two seeds are left: " << said;
  EXPECT_NE(said.find("Too few seeds"), std::string::npos) << said;
}

TEST(Findings, AnEntryThatCouldNotBeTestedLeavesNoBest) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.9});
  write_case(folder, {"rope", 0.1, 0.1});
  write_case(folder, {"none", 0.99, 0.99});
  for (int seed = 0; seed < 5; ++seed) {
    std::filesystem::remove(folder / fmt::format("none-{}/scores.bin", seed));
  }
  const TaskTable table = table_in(folder);
  EXPECT_NE(all_findings(table).find("cope is ahead of rope at 2x"), std::string::npos);
  EXPECT_EQ(best_at(table, Merit::kBeyondTraining), nullptr);
}

TEST(Failures, CountInMeansFindingsAndTable) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.9});
  write_case(folder, {"rope", 0.5, 0.5}, 4);
  write_run(folder / "lost", {.encoding = "rope", .seed = 4}, runs::RunState::kDiverged,
            "loss is nan");
  const Comparison comparison = compare(find_runs({folder.path()}));
  EXPECT_TRUE(comparison.left_out.empty());
  const TaskTable& table = comparison.tasks[0];
  const Entry& rope = table.entries[1];
  ASSERT_EQ(rope.encoding, "rope");
  EXPECT_EQ(rope.runs(), 5U);
  ASSERT_EQ(rope.failed.size(), 1U);
  EXPECT_EQ(rope.failed[0].seed, 4);
  const Cell* cell = rope.cell("longer", 2);
  EXPECT_EQ(cell->n, 5U);
  EXPECT_EQ(cell->headline().points.size(), 4U);
  EXPECT_NEAR(cell->headline().mean, (0.49 + 0.495 + 0.5 + 0.505 + 0.0) / 5, 1e-12);
  EXPECT_EQ(rope.effective[0].lowest, 0) << "a failed run reaches no length";
  EXPECT_TRUE(notes_say(table, "rope seed 4 diverged at step 100: loss is nan"));
  EXPECT_NE(all_findings(table).find("1 of 5 runs of rope diverged or failed"), std::string::npos);
}

TEST(Failures, AnEncodingWhoseRunsAllFailedStaysInTheTable) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.9});
  for (int seed = 0; seed < 5; ++seed) {
    write_run(folder / fmt::format("rope-{}", seed), {.encoding = "rope", .seed = seed},
              runs::RunState::kFailed, "out of memory");
  }
  const TaskTable table = table_in(folder);
  ASSERT_EQ(table.entries.size(), 2U);
  EXPECT_EQ(table.entries[1].failed.size(), 5U);
  const std::string said = all_findings(table);
  EXPECT_NE(said.find("5 of 5 runs of rope diverged or failed"), std::string::npos) << said;
  EXPECT_NE(said.find("cope is ahead of rope at 2x"), std::string::npos) << said;
}

// config.yaml has one encoding as a word, several as a list.
TEST(Failures, OfASingleEncodingJoinItsRuns) {
  const TemporaryFolder folder;
  write_case(folder, {"rope", 0.5, 0.5}, 4);
  write_run(folder / "lost", {.encoding = "rope", .seed = 4}, runs::RunState::kDiverged);
  const std::string path = folder / "lost/config.yaml";
  std::string config = testing::file_content(path);
  config.replace(config.find("[\"rope\"]"), 8, "rope");
  testing::write_content(path, config);
  const TaskTable table = table_in(folder);
  ASSERT_EQ(table.entries.size(), 1U);
  EXPECT_EQ(table.entries[0].failed.size(), 1U);
}

TEST(Failures, LeaveNoMeanOfBits) {
  const TemporaryFolder folder;
  for (int seed = 0; seed < 3; ++seed) {
    write_run(
        folder / std::to_string(seed),
        {.seed = seed, .metric = Metric::kBitsPerByte, .rows = {{"train", 1, 2.0, 1.9, 2.1}}});
  }
  write_run(folder / "lost", {.seed = 3}, runs::RunState::kDiverged);
  const TaskTable table = table_in(folder);
  const RegionFigure& figure = table.entries[0].cell("train", 1)->headline();
  EXPECT_TRUE(std::isnan(figure.mean)) << "no number is as bad as a diverged loss";
  EXPECT_FALSE(figure.interval);
  EXPECT_EQ(figure.points.size(), 3U);
}

TEST(Failures, OfAnotherConfigOrOfAFinishedSeedAreLeftOut) {
  const TemporaryFolder folder;
  write_case(folder, {"cope", 0.9, 0.9});
  write_run(folder / "deep", {.encoding = "cope", .seed = 7, .layers = 9},
            runs::RunState::kDiverged);
  write_run(folder / "again", {.encoding = "cope", .seed = 1}, runs::RunState::kFailed);
  const Comparison comparison = compare(find_runs({folder.path()}));
  EXPECT_TRUE(comparison.tasks[0].entries[0].failed.empty());
  ASSERT_EQ(comparison.left_out.size(), 2U);
  EXPECT_NE(comparison.left_out[0].find("has the config and seed of"), std::string::npos);
  EXPECT_NE(comparison.left_out[1].find("deep diverged at step 100"), std::string::npos);
}

}  // namespace
}  // namespace posenc::report
