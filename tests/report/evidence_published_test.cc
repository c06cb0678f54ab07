// Published tables next to our figures.
#include <gtest/gtest.h>

#include "report/evidence_case.h"

namespace posenc::report {
namespace {

using testing::job_fields;
using testing::part_of;
using testing::TemporaryFolder;
using testing::write_run;
using testing::write_seeds;

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
  EXPECT_EQ(tables[0].title, "A paper, model.layers=4: error in %, published / ours");
  EXPECT_EQ(tables[0].header,
            (std::vector<std::string>{"source", "ours", "in domain", "longer (64)"}));
  const auto& rope = tables[0].rows[0];
  EXPECT_EQ(rope[2].rfind("1.8 / 9.0 [", 0), 0U)
      << "an accuracy of 91 is an error of 9: " << rope[2];
  EXPECT_EQ(rope[3].rfind("20.3 / 19.0 [", 0), 0U) << "of four layers: " << rope[3];
  EXPECT_EQ(tables[0].rows[1], (std::vector<std::string>{"PaTH", "-", "0.0001 / -", "-"}));
  EXPECT_TRUE(published_problems(part, {"rope"}, job_fields(part)).empty());
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
      published_problems(part, {"rope"}, job_fields(part)),
      (std::vector<std::string>{"A paper, row CoPE: no job of part main has the encoding cope",
                                "A paper: no job of part main fits its `where`"}));
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
  EXPECT_EQ(published_problems(part, {"rope", "alibi"}, job_fields(part)),
            (std::vector<std::string>{"A paper, row RoPE: 2 variants of part main have the "
                                      "encoding rope(theta=10000); choose one with `where`"}));
  part.published[0].where = {{"model.layers", "4"}};
  EXPECT_TRUE(published_problems(part, {"rope", "alibi"}, job_fields(part)).empty());
  part.published[0].where = {{"train.steps", "100"}};
  EXPECT_EQ(published_problems(part, {"rope", "alibi"}, job_fields(part)).size(), 1U)
      << "fits both variants";
}
TEST(PublishedNextToOurs, OfSingleAnswersWhereTheTaskScoresWholeRows) {
  const TemporaryFolder folder;
  for (int seed = 0; seed < 3; ++seed) {
    write_run(folder / fmt::format("rope-{}", seed), {.encoding = "rope",
                                                      .seed = seed,
                                                      .metric = Metric::kError,
                                                      .rows = {{"train", 1, 1.0, 0.9, 1.0}},
                                                      .row_metric = true});
  }
  EvidencePart part = part_of(folder);
  part.published = {{.source = "A paper",
                     .part = "main",
                     .metric = Metric::kAccuracy,
                     .single_answers = true,
                     .where = {},
                     .rows = {{"RoPE", "rope", {{"train", 0, 48.0}}}}}};
  const TextTable ours = published_tables(part).at(0);
  EXPECT_EQ(ours.title, "A paper: accuracy in % of single answers, published / ours");
  EXPECT_EQ(ours.rows[0][2], "48 / 0.2 0.2 0.2") << "one of 400 answers is right";
  const auto all = single_answers_table(part.comparison.tasks[0]);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->rows[0], (std::vector<std::string>{"rope", "99.8 99.8 99.8"}));
  EXPECT_NE(results_block(part).find(all->title), std::string::npos);
  part.published[0].single_answers = false;
  EXPECT_EQ(published_tables(part).at(0).rows[0][2].rfind("48 / 0.0 [", 0), 0U) << "whole rows";
}

// A part may have the first of its runs only.
TEST(PublishedNextToOurs, AWhereNeedsAJobAndNoRun) {
  const TemporaryFolder folder;
  write_seeds(folder, "rope", 0.5, 3, 2);
  EvidencePart part = part_of(folder);
  part.published = {{.source = "A paper",
                     .part = "main",
                     .metric = Metric::kError,
                     .where = {{"model.layers", "4"}},
                     .rows = {{"RoPE", "rope", {{"train", 0, 1.8}}}}}};
  std::vector<FlatConfig> jobs = job_fields(part);
  EXPECT_EQ(published_problems(part, {"rope"}, jobs).size(), 1U);
  jobs.push_back({{"model.layers", "4"}});
  EXPECT_TRUE(published_problems(part, {"rope"}, jobs).empty());
  EXPECT_EQ(published_tables(part).at(0).rows[0][2], "1.8 / -");
  EXPECT_EQ(published_tables(part).at(0).title,
            "A paper, model.layers=4: error in %, published / ours");
}

}  // namespace
}  // namespace posenc::report
