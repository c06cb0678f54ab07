// Known figures in run directories, and what is made of them.
#include "report/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "posenc/core/error.h"
#include "report/run_case.h"

namespace posenc::report {
namespace {

using testing::CaseRow;
using testing::CaseRun;
using testing::TemporaryFolder;
using testing::write_run;

bool mentions(const std::vector<std::string>& lines, const std::string& part) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

Comparison compare_in(const TemporaryFolder& folder, const CompareOptions& options = {}) {
  return compare(find_runs({folder.path()}), options);
}

TEST(Compare, TakesSeedsTogether) {
  const TemporaryFolder folder;
  const double values[] = {0.9, 0.8, 1.0};
  for (int seed = 0; seed < 3; ++seed) {
    const double v = values[seed];
    write_run(folder / ("deep/er/" + std::to_string(seed)),
              {.encoding = "rope",
               .seed = seed,
               .tokens_per_s = 900.0 + 100.0 * seed,
               .positions = 7,
               .rows = {{"train", 1, v, v - 0.04, v + 0.02},
                        {"longer", 1, 0.95, 0.9, 1.0},
                        {"longer", 2, seed == 0 ? 0.95 : 0.5, 0.4, 0.96}}});
  }
  const Comparison c = compare_in(folder);
  ASSERT_EQ(c.tasks.size(), 1U);
  const TaskTable& table = c.tasks[0];
  EXPECT_EQ(table.task, "selective_counting");
  EXPECT_EQ(table.axes, std::vector<std::string>{"longer"});
  EXPECT_EQ(table.factors, (std::vector<double>{1, 2}));
  EXPECT_EQ(table.variants.size(), 1U) << "name, seed and log_every make no variant";
  ASSERT_EQ(table.entries.size(), 1U);
  const Entry& entry = table.entries[0];
  EXPECT_EQ(entry.seeds, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(entry.parameters, 5007);
  EXPECT_EQ(entry.position_parameters, 7);
  EXPECT_NEAR(entry.tokens_per_s, 1000.0, 1e-9);
  EXPECT_FALSE(entry.cost.has_value()) << "nothing to compare with";
  const Cell* cell = entry.cell("train", 1);
  ASSERT_NE(cell, nullptr);
  EXPECT_EQ(cell->n, 3U);
  const RegionFigure& figure = cell->headline();
  EXPECT_NEAR(figure.mean, 0.9, 1e-12);
  EXPECT_EQ(figure.points, (std::vector<double>{0.9, 0.8, 1.0})) << "by seed";
  ASSERT_TRUE(figure.interval.has_value());
  const double over_seeds = 4.3026527297 * 0.1 / std::sqrt(3.0);
  EXPECT_NEAR(figure.interval->low, 0.9 - std::hypot(over_seeds, 0.04), 1e-9);
  EXPECT_EQ(figure.interval->high, 1.0) << "an accuracy ends there";
  EXPECT_EQ(figure.chance, 0.25);
  ASSERT_EQ(entry.effective.size(), 1U);
  EXPECT_EQ(entry.effective[0].lowest, 32);
  EXPECT_EQ(entry.effective[0].median, 32);
  EXPECT_EQ(entry.effective[0].highest, 64);
  EXPECT_TRUE(c.left_out.empty());
  const Comparison low = compare_in(folder, {.threshold = 0.4});
  EXPECT_EQ(low.tasks[0].entries[0].effective[0].lowest, 64);
}

// The headline is over positions beyond the trained length; the other two stand next to it.
TEST(Compare, KeepsThreeFiguresOfALongerRow) {
  const TemporaryFolder folder;
  for (int seed = 0; seed < 2; ++seed) {
    const double v = 0.1 + 0.1 * seed;
    write_run(folder / std::to_string(seed), {.seed = seed,
                                              .rows = {{.axis = "longer",
                                                        .factor = 2,
                                                        .value = v,
                                                        .low = v,
                                                        .high = v,
                                                        .last_eighth = v / 2,
                                                        .all = 0.5 + v}}});
  }
  const Comparison c = compare_in(folder);
  const Cell* cell = c.tasks[0].entries[0].cell("longer", 2);
  ASSERT_NE(cell, nullptr);
  EXPECT_TRUE(cell->beyond_training);
  EXPECT_EQ(cell->headline().positions, (runs::PositionRange{32, 64}));
  EXPECT_NEAR(cell->headline().mean, 0.15, 1e-12);
  EXPECT_EQ(cell->headline().chance, 0.125) << "on the same positions";
  EXPECT_FALSE(cell->headline().interval) << "two seeds carry none";
  const RegionFigure& last = cell->region(runs::Region::kLastEighth);
  EXPECT_EQ(last.positions, (runs::PositionRange{56, 64}));
  EXPECT_EQ(last.points, (std::vector<double>{0.05, 0.1}));
  EXPECT_NEAR(cell->region(runs::Region::kAll).mean, 0.65, 1e-12);
  EXPECT_EQ(cell->region(runs::Region::kAll).chance, 0.25);
}

// A sparse set at the trained length asks for more than training showed; another axis at 1x does not.
TEST(Compare, BeyondTrainingGoesByTheFlag) {
  const TemporaryFolder folder;
  write_run(folder / "a",
            {.rows = {{"train", 1, 1.0, 1.0, 1.0},
                      {"longer", 1, 0.9, 0.9, 0.9},
                      {"longer", 2, 0.2, 0.2, 0.2},
                      {.axis = "sparse", .factor = 1, .value = 0.6, .shifted = true}}});
  write_run(folder / "b", {.encoding = "none",
                           .rows = {{"train", 1, 1.0, 1.0, 1.0}, {"longer", 2, 0.3, 0.3, 0.3}}});
  const TaskTable table = compare_in(folder).tasks[0];
  ASSERT_EQ(table.entries[1].encoding, "rope");
  EXPECT_NEAR(*beyond_training(table, table.entries[1]), 0.4, 1e-12);
  EXPECT_TRUE(std::isnan(*beyond_training(table, table.entries[0]))) << "it lacks the sparse set";
}

TEST(Compare, TellsTheCostAgainstNoPositions) {
  const TemporaryFolder folder;
  const std::vector<CaseRow> rows = {{"train", 1, 0.9, 0.8, 1.0}};
  write_run(folder / "none", {.encoding = "none", .tokens_per_s = 1200, .rows = rows});
  write_run(folder / "rope", {.encoding = "rope", .tokens_per_s = 1000, .rows = rows});
  write_run(folder / "else", {.encoding = "cope", .cpu = "large", .rows = rows});
  const TaskTable table = compare_in(folder).tasks[0];
  ASSERT_EQ(table.entries.size(), 3U);
  const auto cost_of = [&](const std::string& encoding) {
    for (const Entry& entry : table.entries) {
      if (entry.encoding == encoding) return entry.cost.value_or(0);
    }
    return -1.0;
  };
  EXPECT_NEAR(cost_of("rope"), 1.2, 1e-12);
  EXPECT_NEAR(cost_of("none"), 1.0, 1e-12);
  EXPECT_EQ(cost_of("cope"), 0.0) << "there is none";
  EXPECT_TRUE(mentions(table.notes, "cope has no cost"));
  EXPECT_TRUE(mentions(table.notes, "with fewer than 3 seeds there is no interval"));
}

TEST(Compare, SaysWhatElseDiffers) {
  const TemporaryFolder folder;
  const std::vector<CaseRow> rows = {{"train", 1, 0.9, 0.8, 1.0}};
  write_run(folder / "a", {.encoding = "none", .layers = 2, .tokens_per_s = 2000, .rows = rows});
  write_run(folder / "b", {.encoding = "rope", .layers = 2, .rows = rows});
  write_run(folder / "c", {.encoding = "rope", .layers = 4, .rows = rows});
  const TaskTable table = compare_in(folder).tasks[0];
  ASSERT_EQ(table.variants.size(), 2U);
  EXPECT_EQ(table.variants[0].name, "A");
  EXPECT_EQ(table.variants[0].settings, std::vector<std::string>{"model.layers=2"});
  EXPECT_EQ(table.variants[1].settings, std::vector<std::string>{"model.layers=4"});
  ASSERT_EQ(table.entries.size(), 3U) << "different depths are not seeds of one another";
  EXPECT_TRUE(table.entries[1].cost.has_value());
  EXPECT_FALSE(table.entries[2].cost.has_value()) << "no run without positions has four layers";
  EXPECT_TRUE(mentions(table.notes, "B: model.layers=4"));
}

TEST(Compare, NeverAveragesDifferentEvaluations) {
  const TemporaryFolder folder;
  const std::vector<CaseRow> rows = {{"train", 1, 0.9, 0.8, 1.0}};
  write_run(folder / "0", {.seed = 0, .rows = rows});
  write_run(folder / "1", {.seed = 1, .rows = rows});
  write_run(folder / "2", {.seed = 2, .rows = rows, .samples = 80});
  const TaskTable table = compare_in(folder).tasks[0];
  ASSERT_EQ(table.entries.size(), 2U) << "the eval fields of config.yaml do not count";
  EXPECT_EQ(table.entries[0].seeds, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(table.variants[0].settings, std::vector<std::string>{"eval.samples=40"})
      << "nor does the threshold, which changes no figure";
  EXPECT_EQ(table.variants[1].settings, std::vector<std::string>{"eval.samples=80"});
}

TEST(Compare, NamesWhatIsLeftOut) {
  const TemporaryFolder folder;
  const std::vector<CaseRow> rows = {{"train", 1, 0.9, 0.8, 1.0}};
  write_run(folder / "fine", {.rows = rows});
  write_run(folder / "twice", {.rows = rows});
  write_run(folder / "stopped", {.seed = 1, .rows = rows}, runs::RunState::kStopped);
  write_run(folder / "failed", {.seed = 2}, runs::RunState::kFailed, "the disk is full");
  write_run(folder / "killed", {.seed = 3}, runs::RunState::kRunning);
  write_run(folder / "bare", {.seed = 4});
  write_run(folder / "broken", {.seed = 5, .rows = rows});
  testing::write_content(folder / "broken/results.json", "{\"task\": ");
  write_run(folder / "odd", {.seed = 6, .rows = rows});
  testing::write_content(folder / "odd/results.json", "{\"task\": \"x\", \"encoding\": \"y\"}");
  const Comparison c = compare_in(folder);
  ASSERT_EQ(c.tasks.size(), 1U);
  EXPECT_EQ(c.tasks[0].entries[0].seeds.size(), 1U);
  EXPECT_EQ(c.left_out.size(), 6U);
  for (const std::string part : {"stopped stopped at step 100", "killed was killed after step 100",
                                 "bare has not been evaluated", "broken cannot be read",
                                 "odd cannot be read: ", "evaluate the run again with posenc eval",
                                 "has the config and seed of"}) {
    EXPECT_TRUE(mentions(c.left_out, part)) << part;
  }
}

TEST(Compare, ARunThatIsWrittenToIsStillRunning) {
  const TemporaryFolder folder;
  const auto open = runs::RunDirectory::create(
      folder / "now", {.config = "seed: 0\n", .config_hash = "0", .environment = {}});
  EXPECT_TRUE(mentions(compare_in(folder).left_out, "is still running"));
}

TEST(Compare, MissingFiguresAreSaid) {
  const TemporaryFolder folder;
  const std::string skipped = ", \"skipped\": \"its table ends at 64\"";
  write_run(folder / "0", {.seed = 0,
                           .rows = {{"train", 1, 0.9, 0.8, 1.0},
                                    {"longer", 2, 0.5, 0.4, 0.6},
                                    {"longer", 4, 0, 0, 0, skipped}}});
  write_run(folder / "1", {.seed = 1, .rows = {{"train", 1, 0.9, 0.8, 1.0}}});
  const TaskTable table = compare_in(folder).tasks[0];
  EXPECT_EQ(table.entries[0].cell("longer", 2)->n, 1U);
  EXPECT_EQ(table.entries[0].cell("longer", 4), nullptr);
  EXPECT_TRUE(mentions(table.notes, "longer 2x: 1 of 2 seeds"));
  EXPECT_TRUE(mentions(table.notes, "longer 4x: no figure: its table ends at 64"));
}

TEST(Compare, ErrorsAndBitsAreBetterWhenSmall) {
  const TemporaryFolder folder;
  write_run(folder / "e",
            {.task = "flip_flop",
             .metric = Metric::kError,
             .rows = {{"sparse", 1, 0.05, 0.04, 0.06}, {"sparse", 2, 0.3, 0.2, 0.4}}});
  write_run(folder / "b", {.task = "language_model",
                           .metric = Metric::kBitsPerByte,
                           .rows = {{"windows", 1, 2.5, 2.4, 2.6}}});
  const Comparison c = compare_in(folder);
  ASSERT_EQ(c.tasks.size(), 2U);
  EXPECT_TRUE(c.tasks[0].entries[0].effective.empty()) << "bits have no threshold";
  EXPECT_EQ(c.tasks[1].entries[0].effective[0].median, 32);
  EXPECT_EQ(c.tasks[0].entries[0].cell("windows", 1)->headline().mean, 2.5);
}

// The threshold is that of the runs' own evaluation.
TEST(Compare, TheThresholdComesFromTheResults) {
  const TemporaryFolder folder;
  const CaseRun run{.rows = {{"longer", 1, 0.95, 0.9, 1.0}, {"longer", 2, 0.6, 0.5, 0.7}}};
  write_run(folder / "a", run);
  EXPECT_EQ(compare_in(folder).tasks[0].entries[0].effective[0].median, 32);
  std::string text = testing::results_text(run);
  const std::string was = "\"threshold\": 0.9";
  text.replace(text.find(was), was.size(), "\"threshold\": 0.5");
  testing::write_content(folder / "a/results.json", text);
  EXPECT_EQ(compare_in(folder).tasks[0].threshold, 0.5);
  EXPECT_EQ(compare_in(folder).tasks[0].entries[0].effective[0].median, 64);
}

TEST(FindRuns, WantsFoldersWithRuns) {
  const TemporaryFolder folder;
  EXPECT_THROW(find_runs({folder / "nowhere"}), Error);
  EXPECT_THROW(find_runs({folder.path()}), Error);
  write_run(folder / "a", {});
  EXPECT_EQ(find_runs({folder.path(), folder / "a", folder.path() + "/."}).size(), 1U)
      << "each run once";
}

TEST(TrainingFields, OpenNamedPartsUp) {
  const Value config = parse_yaml(
      "name: x\nseed: 3\ntask: {flip_flop: {p: 0.5}}\nmodel: {encoding: [rope, none]}\n"
      "train: {keep_last: 3, lr: 0.001, stages: []}\neval: {samples: 3}\n",
      "config");
  const FlatConfig expected = {{"seed", "3"},
                               {"task.flip_flop.p", "0.5"},
                               {"model.encoding", "[\"rope\",\"none\"]"},
                               {"train.lr", "0.001"},
                               {"train.stages", "[]"}};
  EXPECT_EQ(training_fields(config), expected);
}

TEST(TrainingFields, LeaveOutWhatARunDoesNotRead) {
  const auto fields = [](const std::string& model, const std::string& train) {
    return training_fields(
        parse_yaml(fmt::format("model: {{{}}}\ntrain: {{{}}}\n", model, train), "config"));
  };
  EXPECT_EQ(
      fields("attention: softmax, linear_form: elu, window: 8", "optimizer: sgd, beta1: 0.9"),
      (FlatConfig{
          {"model.attention", "softmax"}, {"model.window", "8"}, {"train.optimizer", "sgd"}}));
  EXPECT_EQ(
      fields("attention: linear, linear_form: elu, window: -1", "optimizer: adam, beta1: 0.9"),
      (FlatConfig{{"model.attention", "linear"},
                  {"model.linear_form", "elu"},
                  {"train.optimizer", "adam"},
                  {"train.beta1", "0.9"}}));
  EXPECT_EQ(fields("linear_form: elu", "length: 8, stages: [{length: 4, batch: 2, steps: 1}]"),
            (FlatConfig{{"model.linear_form", "elu"},
                        {"train.stages", R"([{"length":4,"batch":2,"steps":1}])"}}))
      << "a run that does not say its attention keeps the field";
}

}  // namespace
}  // namespace posenc::report
