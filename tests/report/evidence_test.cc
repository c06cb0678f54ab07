// What an evidence page shows of a part: tables, blocks, picture.
#include "report/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "draw/svg.h"
#include "report/evidence_case.h"

namespace posenc::report {
namespace {

using testing::CaseRun;
using testing::part_of;
using testing::row_named;
using testing::TemporaryFolder;
using testing::write_run;
using testing::write_scheduled;
using testing::write_seeds;

TEST(EvidenceTable, HasInDomainAndWhatIsBeyondTraining) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5);
  const TextTable table = results_table(part_of(folder).comparison.tasks[0]);
  EXPECT_EQ(table.header,
            (std::vector<std::string>{"encoding", "seeds", "in domain (32)", "longer 2x (64)",
                                      "longer 4x (128)", "sparse (32)", "worst seed"}));
  const auto* row = row_named(table, "rope");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ((*row)[1], "3");
  EXPECT_EQ((*row)[2].rfind("91.0 [", 0), 0U) << (*row)[2];
  EXPECT_NE((*row)[2].find(", "), std::string::npos);
  EXPECT_EQ((*row)[6], "50.0, longer 2x (64)") << "4x is below chance";
  const auto* chance = row_named(table, "chance");
  ASSERT_NE(chance, nullptr);
  EXPECT_EQ((*chance)[2], "25.0");
  EXPECT_EQ((*chance)[3], "12.5");
}

TEST(EvidenceTable, BitsAlsoHaveTheTrainedLengthOfAnAxis) {
  const TemporaryFolder folder;
  for (int seed = 0; seed < 3; ++seed) {
    write_run(folder / std::to_string(seed), {.seed = seed,
                                              .metric = Metric::kBitsPerByte,
                                              .rows = {{"train", 1, 2.0, 1.9, 2.1},
                                                       {"longer", 1, 1.9, 1.8, 2.0},
                                                       {"longer", 2, 2.5, 2.4, 2.6}}});
  }
  const auto conditions = conditions_of(part_of(folder).comparison.tasks[0]);
  ASSERT_EQ(conditions.size(), 3U);
  EXPECT_EQ(condition_name(conditions[1]), "longer (32)");
}

TEST(EvidenceTable, VariantsAreNamedByWhatTheyDifferIn) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5, 3, 2);
  write_seeds(folder, "rope", 0.8, 3, 4);
  const EvidencePart part = part_of(folder);
  const TextTable table = results_table(part.comparison.tasks[0]);
  EXPECT_NE(row_named(table, "rope, model.layers=2"), nullptr);
  EXPECT_NE(row_named(table, "rope, model.layers=4"), nullptr);
}

// The config as a run has it: with the default of every field, also of one that it does not read.
TEST(EvidenceTable, NamesLeaveOutFieldsThatARunDoesNotRead) {
  const TemporaryFolder folder;
  for (const char* form : {"relu", "elu", "softmax"}) {
    const bool softmax = std::string(form) == "softmax";
    CaseRun run{.encoding = "rope", .rows = {{"train", 1, 0.9, 0.88, 0.95}}};
    run.model = fmt::format(", attention: {}, linear_form: {}, window: -1",
                            softmax ? "softmax" : "linear", softmax ? "elu" : form);
    write_run(folder / form, run);
  }
  const TextTable table = results_table(part_of(folder).comparison.tasks[0]);
  EXPECT_NE(row_named(table, "rope, model.attention=softmax"), nullptr) << table.rows[2][0];
  EXPECT_NE(row_named(table, "rope, model.attention=linear, model.linear_form=elu"), nullptr);
}

TEST(EvidenceTable, WorstSeedCountsAFailedRunAndFewSeedsAreListed) {
  const TemporaryFolder folder;
  write_seeds(folder, "alibi", 0.5, 2);
  write_seeds(folder, "rope", 0.9, 3);
  write_run(folder / "lost", {.encoding = "rope", .seed = 3}, runs::RunState::kDiverged);
  const EvidencePart part = part_of(folder);
  const TextTable table = results_table(part.comparison.tasks[0]);
  EXPECT_EQ((*row_named(table, "alibi"))[2], "90.0 91.0");
  EXPECT_EQ((*row_named(table, "rope"))[1], "1 of 4 diverged");
  EXPECT_EQ((*row_named(table, "rope"))[6], "at chance") << "the interval reaches down to 0";
}

TEST(EvidenceTable, ARowOfAScheduleHasTheModelsOwnFiguresUpToTheTrainedLength) {
  const TemporaryFolder folder;
  write_scheduled(folder, 0.8);
  const TextTable table = results_table(part_of(folder).comparison.tasks[0]);
  const auto* own = row_named(table, "rope");
  const auto* ntk = row_named(table, "rope, ntk");
  ASSERT_NE(own, nullptr);
  ASSERT_NE(ntk, nullptr) << "named as posenc compare names it";
  EXPECT_EQ((*ntk)[2].rfind("91.0 [", 0), 0U) << "in domain: " << (*ntk)[2];
  EXPECT_EQ((*ntk)[2], (*own)[2]);
  EXPECT_EQ((*ntk)[3].rfind("41.0 [", 0), 0U) << "of the schedule: " << (*ntk)[3];
  EXPECT_EQ((*ntk)[5], (*own)[5]) << "sparse, at the trained length";
}

TEST(EvidenceTable, TheWorstSeedOfAScheduleMayBeTheModelsOwn) {
  const TemporaryFolder folder;
  write_scheduled(folder, 0.1);
  const TextTable table = results_table(part_of(folder).comparison.tasks[0]);
  const auto* ntk = row_named(table, "rope, ntk");
  ASSERT_NE(ntk, nullptr);
  EXPECT_EQ(ntk->back(), "70.0, sparse (32)") << "longer rows are at chance";
}

TEST(EvidenceTable, AScheduleStandsBeforeTheVariant) {
  const TemporaryFolder folder;
  write_scheduled(folder, 0.8);
  write_seeds(folder, "rope", 0.5, 3, 4);
  const TextTable table = results_table(part_of(folder).comparison.tasks[0]);
  EXPECT_NE(row_named(table, "rope, ntk, model.layers=2"), nullptr);
  EXPECT_EQ(row_named(table, "rope, ntk, model.layers=4"), nullptr);
}

TEST(EvidenceBlocks, HaveTableFindingsAndHardware) {
  const TemporaryFolder folder;
  write_seeds(folder, "none", 0.2, 5);
  write_seeds(folder, "rope", 0.9, 5);
  const std::string block = results_block(part_of(folder));
  EXPECT_NE(block.find("| encoding | seeds | in domain (32) |"), std::string::npos) << block;
  EXPECT_NE(block.find("- rope is ahead of none on longer at 2x by 70 points"), std::string::npos)
      << block;
  EXPECT_NE(block.find("10 runs of 9 jobs; cpu tiny, threads 1. Training took 0.4 minutes"),
            std::string::npos)
      << block;
  EXPECT_EQ(block.find("training speed"), std::string::npos) << block;
  EXPECT_EQ(block.find(folder.path()), std::string::npos) << "no path of the machine";
  EXPECT_EQ(
      picture_block(part_of(folder)),
      "\n![count, part main: every seed a point, a line through the means](count/main.svg)\n\n");
}

TEST(EvidenceBlocks, FindingsNameVariantsByTheirFields) {
  const TemporaryFolder folder;
  for (const int layers : {2, 4}) {
    write_seeds(folder, "none", 0.2, 5, layers);
    write_seeds(folder, "rope", 0.9, 5, layers);
  }
  const std::string block = results_block(part_of(folder));
  EXPECT_NE(block.find("(model.layers=4)"), std::string::npos) << block;
  EXPECT_EQ(block.find("variant"), std::string::npos) << block;
}

TEST(EvidenceBlocks, SayWhichRunsAreNotInTheTable) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5);
  write_run(folder / "half", {.encoding = "rope", .seed = 7}, runs::RunState::kStopped);
  EXPECT_NE(results_block(part_of(folder)).find("- Not in the table: half stopped at step 100"),
            std::string::npos);
}

TEST(EvidenceBlocks, WithoutRunsGiveTheCommand) {
  const EvidencePart part{.page = "count", .part = "deep", .jobs = 12};
  EXPECT_EQ(results_block(part),
            "\nNo runs of this part are published yet; `posenc reproduce count --part deep` trains "
            "its 12 jobs.\n\n");
  EXPECT_EQ(picture_block(part), "");
}

TEST(EvidencePicture, HasALineAndEverySeedOfEachEncoding) {
  const TemporaryFolder folder;
  write_seeds(folder, "none", 0.2);
  write_seeds(folder, "rope", 0.9);
  const auto figure = evidence_figure(part_of(folder));
  ASSERT_TRUE(figure.has_value());
  EXPECT_NO_THROW(draw::to_svg(*figure));
  ASSERT_EQ(figure->panels.size(), 2U) << "sparse, which has one length, and the axis longer";
  EXPECT_EQ(figure->panels[0].x.words, (std::vector<std::string>{"in domain (32)", "sparse (32)"}));
  const draw::Panel& longer = figure->panels[1];
  EXPECT_TRUE(longer.x.log);
  ASSERT_EQ(longer.curves.size(), 5U) << "two lines, their seeds, and chance";
  EXPECT_EQ(longer.curves[0].name, "1 none");
  EXPECT_EQ(longer.curves[2].name, "2 rope");
  ASSERT_EQ(longer.curves[2].y.size(), 3U) << "in domain, 2x and 4x";
  EXPECT_NEAR(longer.curves[2].y[1], 91.0, 1e-9);
  EXPECT_NEAR(longer.curves[2].x[1], 2.0, 0.2);
  EXPECT_EQ(longer.curves[3].stroke, draw::Stroke::kDots);
  EXPECT_EQ(longer.curves[3].y.size(), 9U);
  EXPECT_EQ(longer.curves[4].name, "chance");
  EXPECT_EQ(longer.curves[4].stroke, draw::Stroke::kDashed);
  ASSERT_EQ(longer.notes.size(), 1U) << "both lines end at one place";
  EXPECT_EQ(longer.notes[0].text, "1,2");
  EXPECT_LT(longer.notes[0].x, *longer.x.high);
}

// Two lines that stand far apart look like different conditions.
TEST(EvidencePicture, KeepsFewSeriesCloseTogether) {
  const TemporaryFolder folder;
  const auto distance = [&](std::size_t panel) {
    const auto figure = evidence_figure(part_of(folder));
    const auto& curves = figure->panels[panel].curves;
    const std::size_t last = curves.size() - 3;  // before its seeds and chance
    return curves[last].x[0] - curves[0].x[0];
  };
  write_seeds(folder, "none", 0.2);
  write_seeds(folder, "rope", 0.9);
  EXPECT_NEAR(distance(0), 0.08, 1e-9);
  for (const std::string spec : {"alibi", "t5", "kerple", "fire", "xpos", "learned", "cope"}) {
    write_seeds(folder, spec, 0.5);
  }
  EXPECT_NEAR(distance(0), 0.5, 1e-9) << "of the way to the next condition, at most";
}

TEST(EvidencePicture, DrawsAFailedRunAtTheWorstValue) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.9);
  write_run(folder / "lost", {.encoding = "rope", .seed = 3}, runs::RunState::kDiverged);
  const auto figure = evidence_figure(part_of(folder));
  const auto& seeds = figure->panels[1].curves[1].y;
  ASSERT_EQ(seeds.size(), 12U);
  EXPECT_EQ(std::count(seeds.begin(), seeds.end(), 0.0), 3);
}

TEST(EvidencePicture, StartsTheLineOfAScheduleAtTheModelsOwnFigure) {
  const TemporaryFolder folder;
  write_scheduled(folder, 0.8);
  const auto figure = evidence_figure(part_of(folder));
  ASSERT_TRUE(figure.has_value());
  ASSERT_EQ(figure->panels.size(), 2U);
  const draw::Curve& line = figure->panels[1].curves[2];
  EXPECT_EQ(line.name, "2 rope, ntk");
  EXPECT_EQ(line.stroke, draw::Stroke::kDashed);
  ASSERT_EQ(line.y.size(), 3U) << "in domain, 2x and 4x";
  EXPECT_NEAR(line.y[0], 91.0, 1e-9);
  EXPECT_NEAR(line.y[1], 41.0, 1e-9);
  EXPECT_TRUE(figure->panels[0].curves[2].y.empty()) << "no condition there has the schedule";
}

// --- verdicts -------------------------------------------------------------------------------------

}  // namespace
}  // namespace posenc::report
