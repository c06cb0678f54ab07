// Curves by position: in a line of text, in charts, and what they say about a model's context.
#include <gtest/gtest.h>

#include <cmath>

#include "report/charts.h"
#include "report/context_use.h"
#include "report/evidence_case.h"
#include "report/run_case.h"
#include "report/tables.h"

namespace posenc::report {
namespace {

using testing::CaseRow;
using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

std::string bucket_text(int from, int to, int correct, double loss, double chance) {
  return fmt::format(
      R"({{"from": {}, "to": {}, "scored": 100, "correct": {}, "loss": {}, "chance": {}}})", from,
      to, correct, loss, chance);
}

// Four buckets of a row of 64 tokens; answers get worse beyond 32. One bucket has no answer.
CaseRow curved(int beyond) {
  return {
      .axis = "longer",
      .factor = 2,
      .value = 0.2,
      .low = 0.1,
      .high = 0.3,
      .more = fmt::format(
          R"(, "by_position": [{}, {}, {}, {{"from": 48, "to": 55, "scored": 0, "correct": 0}}, {}])",
          bucket_text(0, 15, 100, 0.5, 0.4), bucket_text(16, 31, 90, 0.5, 0.3),
          bucket_text(32, 47, beyond, 2.0, 0.2), bucket_text(56, 63, beyond / 2, 2.0, 0.1))};
}

Comparison compared(const TemporaryFolder& folder) { return compare(find_runs({folder.path()})); }

TEST(Curves, AreMeansOverSeedsWithChanceOnTheSamePositions) {
  const TemporaryFolder folder;
  write_run(folder / "0", {.seed = 0, .rows = {curved(40)}});
  write_run(folder / "1", {.seed = 1, .rows = {curved(20)}});
  const Comparison comparison = compared(folder);
  const auto& curve = comparison.tasks[0].entries[0].cell("longer", 2)->by_position;
  ASSERT_EQ(curve.size(), 4U) << "a bucket without an answer has no value";
  EXPECT_EQ(curve[2].positions, (runs::PositionRange{32, 48}));
  EXPECT_NEAR(curve[1].value, 0.9, 1e-12);
  EXPECT_NEAR(curve[2].value, 0.3, 1e-12);
  EXPECT_NEAR(curve[3].value, 0.15, 1e-12);
  EXPECT_NEAR(curve[3].chance, 0.1, 1e-12);
}

TEST(Curves, FollowTheMetric) {
  for (const Metric metric : {Metric::kError, Metric::kBitsPerByte}) {
    const TemporaryFolder folder;
    write_run(folder / "0", {.metric = metric, .rows = {curved(40)}});
    const Comparison comparison = compared(folder);
    const auto& curve = comparison.tasks[0].entries[0].cell("longer", 2)->by_position;
    const double expected = metric == Metric::kError ? 0.6 : 2.0 / std::log(2.0);
    EXPECT_NEAR(curve[2].value, expected, 1e-12) << name_of(metric);
  }
}

TEST(Curves, OfRowMetricsAreOfSingleAnswers) {
  const TemporaryFolder folder;
  write_run(folder / "0", {.rows = {curved(40)}, .row_metric = true});
  const Comparison comparison = compared(folder);
  const auto figure = position_figure(comparison.tasks[0], SeriesColors(comparison));
  EXPECT_EQ(figure->panels[0].curves.size(), 2U) << "the encoding's and chance";
  const auto tables = text_tables(comparison, CurveLetters::kDigits);
  EXPECT_NE(tables.back().title.find("accuracy in % of single answers by position"),
            std::string::npos);
}

TEST(Curves, AreOneLineInATerminal) {
  const TemporaryFolder folder;
  write_run(folder / "0", {.rows = {curved(40)}});
  const Comparison comparison = compared(folder);
  const auto digits = text_tables(comparison, CurveLetters::kDigits);
  const TextTable& plain = digits.back();
  EXPECT_NE(plain.title.find("accuracy in % by position"), std::string::npos);
  EXPECT_NE(plain.notes.back().find("from 0.0 (lowest) to 100"), std::string::npos);
  EXPECT_EQ(plain.header, (std::vector<std::string>{"encoding", "2x"}));
  ASSERT_EQ(plain.rows.size(), 2U);
  EXPECT_EQ(plain.rows[0][1], "99|42");
  EXPECT_EQ(plain.rows[1], (std::vector<std::string>{"chance", "43|21"}));
  const auto blocks = text_tables(comparison, CurveLetters::kBlocks);
  EXPECT_EQ(blocks.back().rows[0][1], "██|▄▂");
}

TEST(Curves, OfBitsAreScaledToTheTable) {
  const std::vector<PositionResult> buckets = {{{0, 8}}, {{8, 16}}, {{16, 24}}};
  const CurveScale scale{1.5, 2.5};
  EXPECT_EQ(sparkline({2.5, 2.0, 1.5}, buckets, 32, scale, CurveLetters::kDigits), "950")
      << "no mark where nothing is beyond the trained length";
  EXPECT_EQ(sparkline({2.5, NAN, 1.5}, buckets, 8, scale, CurveLetters::kDigits), "9| 0");
}

TEST(Curves, HaveAPanelPerConditionBeyondTraining) {
  const TemporaryFolder folder;
  CaseRow sparse = curved(60);
  sparse.axis = "sparse";
  sparse.factor = 1;
  CaseRow same = sparse;
  same.axis = "longer";
  sparse.shifted = true;
  write_run(folder / "0", {.rows = {same, curved(40), sparse}});
  const Comparison comparison = compared(folder);
  const auto figure = position_figure(comparison.tasks[0], SeriesColors(comparison));
  ASSERT_TRUE(figure.has_value());
  EXPECT_NO_THROW(validate(*figure));
  ASSERT_EQ(figure->panels.size(), 2U) << "the axis at the trained length asks for nothing new";
  const draw::Panel& longer = figure->panels[0];
  ASSERT_EQ(longer.rules.size(), 1U);
  EXPECT_EQ(longer.rules[0].at, 32.0);
  ASSERT_EQ(longer.curves.size(), 2U);
  EXPECT_EQ(longer.curves[0].x, (std::vector<double>{7.5, 23.5, 39.5, 59.5}));
  EXPECT_EQ(longer.curves[0].y, (std::vector<double>{100, 90, 40, 20}));
  EXPECT_EQ(longer.curves[1].name, "chance");
  EXPECT_EQ(longer.curves[1].stroke, draw::Stroke::kDashed);
  EXPECT_EQ(longer.curves[1].y, (std::vector<double>{40, 30, 20, 10}));
  EXPECT_TRUE(figure->panels[1].rules.empty()) << "no position is beyond the trained length";
}

TEST(Depths, AreAMapOfLengthAndDepth) {
  const TemporaryFolder folder;
  const auto row = [](int factor, int right) {
    return CaseRow{.axis = "longer",
                   .factor = factor,
                   .more = fmt::format(
                       R"(, "by_depth": [{{"from": 0.0, "to": 0.5, "rows": 10, "right": {}}},
                       {{"from": 0.5, "to": 1.0, "rows": 0, "right": 0}}])",
                       right)};
  };
  CaseRow in_domain = row(1, 0);
  in_domain.axis = "train";
  write_run(folder / "0",
            {.seed = 0, .task = "passkey", .rows = {in_domain, row(1, 10), row(2, 4)}});
  write_run(folder / "1", {.seed = 1, .task = "passkey", .rows = {row(1, 10), row(2, 8)}});
  const auto figure = depth_figure(compared(folder).tasks[0]);
  ASSERT_TRUE(figure.has_value());
  EXPECT_NO_THROW(validate(*figure));
  ASSERT_EQ(figure->panels.size(), 1U) << "one per encoding and axis";
  const draw::Heatmap& map = *figure->panels[0].map;
  EXPECT_EQ(map.rows, 2);
  EXPECT_EQ(map.columns, 2);
  EXPECT_EQ(map.values[0], 100.0F);
  EXPECT_NEAR(map.values[1], 60.0F, 1e-4);
  EXPECT_TRUE(std::isnan(map.values[2])) << "no row hides anything there";
  EXPECT_EQ(figure->panels[0].x.words, (std::vector<std::string>{"32", "64"}));
}

std::vector<PositionResult> bits(const std::vector<double>& values) {
  std::vector<PositionResult> curve;
  for (std::size_t b = 0; b < values.size(); ++b) {
    const auto begin = static_cast<std::int64_t>(16 * b);
    curve.push_back({{begin, begin + 16}, values[b], 0.0});
  }
  return curve;
}

TEST(UsedPositions, EndWhereTheLossIsFlat) {
  EXPECT_EQ(used_positions(bits({2.16, 1.89, 1.88, 1.9, 1.89, 1.88, 1.9, 1.89}), 128), 16);
  EXPECT_EQ(used_positions(bits({1.9, 1.89, 1.9, 1.9, 1.89, 1.88, 1.9, 1.89}), 128), 16);
  EXPECT_EQ(used_positions(bits({2.6, 2.3, 2.2, 2.1, 2.05, 2.0, 1.96, 1.93}), 128), std::nullopt)
      << "it still falls";
  EXPECT_EQ(used_positions(bits({2.6, 2.3, 2.2, 2.1, 2.03, 2.0, 2.0, 2.0}), 128), std::nullopt)
      << "it falls past half of the trained length";
  EXPECT_EQ(used_positions(bits({2.2, 1.9, 1.915, 1.9}), 64), 16) << "less than 1 % is noise";
}

TEST(UsedPositions, ATroughOnTheWayIsNoEnd) {
  EXPECT_EQ(used_positions(bits({2.6, 1.9, 2.3, 2.2, 2.1, 2.05, 2.0, 1.9}), 128), std::nullopt);
}

TEST(UsedPositions, AreOfTheTrainedLength) {
  EXPECT_EQ(used_positions(bits({2.2, 1.9, 1.9, 1.9, 1.0, 1.0}), 64), 16)
      << "what happens beyond it does not matter";
  EXPECT_EQ(used_positions({}, 64), std::nullopt);
}

std::string curve_text(const std::vector<double>& losses) {
  std::string buckets;
  for (std::size_t b = 0; b < losses.size(); ++b) {
    const int from = 8 * static_cast<int>(b);
    buckets += (b == 0 ? "" : ", ") + bucket_text(from, from + 7, 0, losses[b], 8.0);
  }
  return fmt::format(R"(, "by_position": [{}])", buckets);
}

const std::vector<double> kFlat = {1.6, 1.4, 1.4, 1.4};
const std::vector<double> kFalling = {2.0, 1.8, 1.6, 1.4};

// Bits per byte of a language model: in domain, and at 1x and 2x of the axis of longer rows.
struct TextModel {
  std::string encoding;
  std::vector<double> losses;  // by position, in domain
  double in_domain = 0.0;
  double at_2x = 0.0;
  std::optional<double> at_1x = {};
  int layers = 2;
};

void write_text(const TemporaryFolder& folder, const TextModel& model) {
  for (int seed = 0; seed < 5; ++seed) {
    const auto row = [&](const char* axis, int factor, double value, const std::string& more) {
      const double own = value + 0.01 * seed;
      return CaseRow{axis, factor, own, own, own, more};
    };
    CaseRun run{.encoding = model.encoding,
                .seed = seed,
                .task = "language_model",
                .metric = Metric::kBitsPerByte,
                .layers = model.layers};
    run.rows = {row("train", 1, model.in_domain, curve_text(model.losses)),
                row("longer", 2, model.at_2x, "")};
    if (model.at_1x) run.rows.push_back(row("longer", 1, *model.at_1x, ""));
    write_run(folder / fmt::format("{}-{}-{}", model.encoding, model.layers, seed), run);
  }
}

std::string said_of(const TaskTable& table) {
  std::string said;
  for (const statistics::Finding& finding : table.findings) said += finding.text + "\n";
  return said;
}

// A flat model says nothing about length: it is in the table, and in no finding about a longer row.
TEST(UsedPositions, KeepAModelOutOfFindingsAboutLength) {
  const TemporaryFolder folder;
  write_text(folder, {"kerple", kFlat, 2.5, 2.5});
  write_text(folder, {"rope", kFalling, 2.0, 3.0});
  write_text(folder, {"none", kFalling, 2.1, 4.0});
  const TaskTable table = compared(folder).tasks[0];
  const std::string said = said_of(table);
  for (const Entry& entry : table.entries) {
    EXPECT_EQ(entry.used_positions.value_or(0), entry.encoding == "kerple" ? 8 : 0);
  }
  EXPECT_NE(said.find("rope is ahead in domain of none"), std::string::npos) << said;
  EXPECT_NE(said.find("rope is ahead of none at 2x"), std::string::npos)
      << "kerple is not in it: " << said;
  EXPECT_NE(said.find("kerple uses about 8 of the 32 positions it was trained on"),
            std::string::npos)
      << said;
}

// A model whose loss changes with the length reacts to distant tokens, however flat its curve is.
TEST(UsedPositions, AModelThatGetsWorseStaysInTheFindings) {
  for (const std::optional<double> at_1x : {std::optional(2.5), std::optional<double>()}) {
    const TemporaryFolder folder;
    write_text(folder, {"kerple", kFlat, 2.5, 3.5, at_1x});
    write_text(folder, {"rope", kFalling, 2.0, 3.0, at_1x});
    const TaskTable table = compared(folder).tasks[0];
    const std::string said = said_of(table);
    for (const Entry& entry : table.entries) EXPECT_FALSE(entry.used_positions) << entry.encoding;
    EXPECT_NE(said.find("rope is ahead of kerple at 2x"), std::string::npos) << said;
    EXPECT_EQ(said.find("uses about"), std::string::npos) << said;
  }
}

TEST(UsedPositions, TheSameBytesCountWhereTheAxisHasTheTrainedLength) {
  const auto used = [](double at_1x, double at_2x) {
    const TemporaryFolder folder;
    write_text(folder, {"kerple", kFlat, 2.5, at_2x, at_1x});
    return compared(folder).tasks[0].entries[0].used_positions;
  };
  EXPECT_EQ(used(2.0, 2.015), 8) << "less than 1 % is noise";
  EXPECT_EQ(used(2.0, 2.03), std::nullopt) << "worse on the same bytes, though not than in domain";
  EXPECT_EQ(used(2.0, 1.97), std::nullopt) << "more context helps";
  EXPECT_EQ(used(3.0, 3.0), 8) << "these bytes are harder than those in domain";
}

TEST(UsedPositions, SayNothingWithoutALongerRow) {
  const TemporaryFolder folder;
  CaseRun run{.task = "language_model", .metric = Metric::kBitsPerByte};
  run.rows = {{"train", 1, 2.5, 2.5, 2.5, curve_text(kFlat)}};
  write_run(folder / "0", run);
  EXPECT_EQ(compared(folder).tasks[0].entries[0].used_positions, std::nullopt);
}

TEST(UsedPositions, AreSaidOfAVariant) {
  const TemporaryFolder folder;
  for (const int layers : {2, 4}) {
    write_text(folder, {"kerple", kFlat, 2.5, 2.5, 2.5, layers});
    write_text(folder, {"rope", kFalling, 2.0, 3.0, 2.0, layers});
  }
  const std::string said = said_of(compared(folder).tasks[0]);
  for (const char* name : {"kerple (variant A) uses about 8", "kerple (variant B) uses about 8"}) {
    EXPECT_NE(said.find(name), std::string::npos) << said;
  }
  EXPECT_NE(results_block(testing::part_of(folder)).find("kerple (model.layers=4) uses about 8"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc::report
