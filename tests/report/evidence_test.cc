// What an evidence page shows of a part: tables, published figures, picture, verdicts.
#include "report/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "draw/svg.h"
#include "report/evidence_verdict.h"
#include "report/page_case.h"

namespace posenc::report {
namespace {

using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

// Chance is 0.25 in domain and 0.125 on longer rows.
void write_seeds(const TemporaryFolder& folder, const std::string& encoding, double at_two,
                 int seeds = 3, int layers = 2) {
  for (int seed = 0; seed < seeds; ++seed) {
    const double spread = 0.01 * seed;
    write_run(
        folder / fmt::format("{}-{}-{}", encoding, layers, seed),
        {.encoding = encoding,
         .seed = seed,
         .layers = layers,
         .rows = {{"train", 1, 0.9 + spread, 0.88, 0.95},
                  {"longer", 1, 0.9, 0.88, 0.92},
                  {"longer", 2, at_two + spread, at_two - 0.02, at_two + 0.03},
                  {"longer", 4, 0.1, 0.08, 0.12},
                  {.axis = "sparse", .value = 0.7, .low = 0.6, .high = 0.8, .shifted = true}}});
  }
}

// RoPE with rows of a schedule, which exist beyond the trained length alone.
void write_scheduled(const TemporaryFolder& folder, double with_ntk, const char* schedule = "ntk") {
  for (int seed = 0; seed < 3; ++seed) {
    const double spread = 0.01 * seed;
    CaseRun run{.encoding = "rope", .seed = seed};
    run.rows = {{.axis = "train", .value = 0.9 + spread},
                {.axis = "longer", .value = 0.9},
                {.axis = "sparse", .value = 0.7, .shifted = true}};
    for (const int factor : {2, 4}) {
      run.rows.push_back({.axis = "longer", .factor = factor, .value = 0.05});
      run.rows.push_back({.axis = "longer",
                          .factor = factor,
                          .value = with_ntk / factor + spread,
                          .schedule = schedule});
    }
    for (testing::CaseRow& row : run.rows) {
      row.low = row.value - 0.02;
      row.high = row.value + 0.02;
    }
    write_run(folder / fmt::format("rope-{}", seed), run);
  }
}

EvidencePart part_of(const TemporaryFolder& folder) {
  EvidencePart part{.page = "count", .part = "main", .jobs = 9, .runs = find_runs({folder.path()})};
  part.comparison = compare(part.runs);
  return part;
}

const std::vector<std::string>* row_named(const TextTable& table, const std::string& name) {
  const auto found = std::find_if(table.rows.begin(), table.rows.end(),
                                  [&](const auto& row) { return row[0] == name; });
  return found == table.rows.end() ? nullptr : &*found;
}

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

TEST(PublishedNextToOurs, HasTheVariantThatWhereChooses) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5, 3, 2);
  write_seeds(folder, "rope", 0.8, 3, 4);
  EvidencePart part = part_of(folder);
  part.published = {
      {.source = "A paper",
       .part = "main",
       .metric = Metric::kError,
       .where = {{"model.layers", "4"}},
       .rows = {{"RoPE", "rope(theta=10000)", {{"train", 0, 1.8}, {"longer", 64, 20.3}}},
                {"PaTH", "", {{"train", 0, 0.0001}}}}}};
  const std::vector<TextTable> tables = published_tables(part);
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].title, "A paper: error in %, published / ours");
  EXPECT_EQ(tables[0].header,
            (std::vector<std::string>{"source", "ours", "in domain", "longer (64)"}));
  const auto& rope = tables[0].rows[0];
  EXPECT_EQ(rope[2].rfind("1.8 / 9.0 [", 0), 0U)
      << "an accuracy of 91 is an error of 9: " << rope[2];
  EXPECT_EQ(rope[3].rfind("20.3 / 19.0 [", 0), 0U) << "of four layers: " << rope[3];
  EXPECT_EQ(tables[0].rows[1], (std::vector<std::string>{"PaTH", "-", "0.0001 / -", "-"}));
  EXPECT_TRUE(published_problems(part, {"rope"}).empty());
}

TEST(PublishedNextToOurs, SaysWhichRowsNothingAnswersTo) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5);
  EvidencePart part = part_of(folder);
  part.published = {{.source = "A paper",
                     .part = "main",
                     .metric = Metric::kError,
                     .where = {{"model.layers", "9"}},
                     .rows = {{"CoPE", "cope", {{"train", 0, 1.0}}}}}};
  EXPECT_EQ(
      published_problems(part, {"rope"}),
      (std::vector<std::string>{"A paper, row CoPE: no job of part main has the encoding cope",
                                "A paper: no run of part main fits its `where`"}));
}

TEST(PublishedNextToOurs, NeedsAWhereIfVariantsShareTheEncoding) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5, 3, 2);
  write_seeds(folder, "rope", 0.8, 3, 4);
  write_seeds(folder, "alibi", 0.8, 3, 4);
  EvidencePart part = part_of(folder);
  part.published = {{.source = "A paper",
                     .part = "main",
                     .metric = Metric::kError,
                     .where = {},
                     .rows = {{"RoPE", "rope(theta=10000)", {{"train", 0, 1.8}}},
                              {"ALiBi", "alibi", {{"train", 0, 1.8}}},
                              {"PaTH", "", {{"train", 0, 0.0001}}}}}};
  EXPECT_EQ(published_problems(part, {"rope", "alibi"}),
            (std::vector<std::string>{"A paper, row RoPE: 2 variants of part main have the "
                                      "encoding rope(theta=10000); choose one with `where`"}));
  part.published[0].where = {{"model.layers", "4"}};
  EXPECT_TRUE(published_problems(part, {"rope", "alibi"}).empty());
  part.published[0].where = {{"train.steps", "100"}};
  EXPECT_EQ(published_problems(part, {"rope", "alibi"}).size(), 1U) << "fits both variants";
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

const Verdict& verdict_at(const std::vector<Verdict>& all, const std::string& row,
                          const std::string& condition) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Verdict& v) {
    return v.row == row && v.condition == condition;
  });
  static const Verdict none;
  return found == all.end() ? none : *found;
}

TEST(Verdicts, AgreeWhereIntervalsOverlap) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_seeds(here, "rope", 0.51);
  write_seeds(there, "rope", 0.5);
  write_seeds(here, "alibi", 0.9);
  write_seeds(there, "alibi", 0.5);
  write_seeds(here, "kerple", 0.2);
  write_seeds(there, "kerple", 0.5);
  write_seeds(here, "t5", 0.9);
  write_seeds(there, "none", 0.5);
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  const Verdict& same = verdict_at(all, "rope", "longer 2x (64)");
  EXPECT_EQ(same.words, "agrees within the intervals");
  EXPECT_EQ(same.here.rfind("52.0 [", 0), 0U) << same.here;
  EXPECT_EQ(same.there.rfind("51.0 [", 0), 0U) << same.there;
  EXPECT_EQ(verdict_at(all, "alibi", "longer 2x (64)").words, "differs by 40.0 points");
  EXPECT_EQ(verdict_at(all, "kerple", "longer 2x (64)").words, "differs by 30.0 points");
  EXPECT_EQ(verdict_at(all, "alibi", "in domain (32)").words, "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "none", "").words, "only there");
  EXPECT_EQ(verdict_at(all, "t5", "").words, "only here");
}

TEST(Verdicts, OfFewSeedsGoByTheSeeds) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_seeds(here, "rope", 0.505, 1);
  write_seeds(there, "rope", 0.5, 2);
  write_seeds(here, "alibi", 0.6, 1);
  write_seeds(there, "alibi", 0.5, 2);
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  EXPECT_EQ(verdict_at(all, "rope", "longer 2x (64)").words, "agrees within the seeds");
  EXPECT_EQ(verdict_at(all, "alibi", "longer 2x (64)").words, "differs by 9.5 points");
}

TEST(Verdicts, HoldRunsOfOneConfigAgainstEachOtherOnAnyDevice) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_seeds(here, "rope", 0.5, 3, 2);
  write_seeds(there, "rope", 0.5, 3, 2);
  write_seeds(there, "rope", 0.9, 3, 4);
  for (int seed = 0; seed < 3; ++seed) {
    const std::string path = here / fmt::format("rope-2-{}/config.yaml", seed);
    std::string text = testing::file_content(path);
    text.replace(text.find("train: {"), 8, "train: {device: cuda, ");
    testing::write_content(path, text);
  }
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  EXPECT_EQ(verdict_at(all, "rope, model.layers=2", "longer 2x (64)").words,
            "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "rope, model.layers=4", "").words, "only there");
}

TEST(Verdicts, AreGivenForRowsOfSchedules) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_scheduled(here, 0.8);
  write_scheduled(there, 0.2);
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  const Verdict& ntk = verdict_at(all, "rope, ntk", "longer 2x (64)");
  EXPECT_EQ(ntk.words, "differs by 30.0 points");
  EXPECT_EQ(ntk.here.rfind("41.0 [", 0), 0U) << ntk.here;
  EXPECT_EQ(ntk.there.rfind("11.0 [", 0), 0U) << ntk.there;
  EXPECT_EQ(verdict_at(all, "rope", "longer 2x (64)").words, "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "rope", "in domain (32)").words, "agrees within the intervals");
  EXPECT_EQ(verdict_at(all, "rope, ntk", "in domain (32)").words, "") << "said once, of rope";
  EXPECT_EQ(all.size(), 6U) << "four conditions of rope, two of the schedule";
}

TEST(Verdicts, SayWhichSideHasASchedule) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  write_scheduled(here, 0.8, "yarn");
  write_scheduled(there, 0.8, "ntk");
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  const Verdict& ntk = verdict_at(all, "rope, ntk", "longer 2x (64)");
  EXPECT_EQ(ntk.words, "only there");
  EXPECT_EQ(ntk.here, "-");
  EXPECT_EQ(verdict_at(all, "rope, yarn", "").words, "only here");
}

TEST(Verdicts, OfTextAreInBitsPerByte) {
  const TemporaryFolder here;
  const TemporaryFolder there;
  for (int seed = 0; seed < 3; ++seed) {
    CaseRun run{.seed = seed, .metric = Metric::kBitsPerByte};
    run.rows = {{"train", 1, 2.0 + 0.001 * seed, 1.9, 2.1}};
    write_run(there / std::to_string(seed), run);
    run.rows = {{"train", 1, 3.0 + 0.001 * seed, 2.9, 3.1}};
    write_run(here / std::to_string(seed), run);
  }
  const auto all = verdicts(find_runs({here.path()}), find_runs({there.path()}));
  EXPECT_EQ(verdict_at(all, "rope", "in domain (32)").words, "differs by 1.000 bits per byte");
}

}  // namespace
}  // namespace posenc::report
