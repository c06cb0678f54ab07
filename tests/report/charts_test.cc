#include "report/charts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/page_case.h"
#include "runs/metrics.h"

namespace posenc::report {
namespace {

using testing::TemporaryFolder;
using testing::write_run;

Comparison two_encodings(const TemporaryFolder& folder, int seeds = 3) {
  for (const std::string encoding : {"none", "rope"}) {
    for (int seed = 0; seed < seeds; ++seed) {
      write_run(folder / (seed == 0 ? encoding : fmt::format("{}-{}", encoding, seed)),
                {.encoding = encoding,
                 .seed = seed,
                 .tokens_per_s = encoding == "none" ? 2000.0 : 1000.0,
                 .rows = {{"train", 1, 0.9, 0.88, 0.92},
                          {"longer", 1, 0.9, 0.8, 0.95},
                          {"longer", 4, 0.5 + 0.1 * (seeds < 3 ? seed : 0), 0.4, 0.6},
                          {"harder", 1, 0.7, 0.6, 0.8}}});
    }
  }
  return compare(find_runs({folder.path()}));
}

TEST(Charts, LengthsHaveAPanelPerAxisAndTheirIntervals) {
  const TemporaryFolder folder;
  const Comparison comparison = two_encodings(folder);
  const auto figure = length_figure(comparison.tasks[0], SeriesColors(comparison));
  ASSERT_TRUE(figure.has_value());
  ASSERT_EQ(figure->panels.size(), 2U);
  EXPECT_NO_THROW(validate(*figure));
  const draw::Panel& panel = figure->panels[0];
  ASSERT_EQ(panel.curves.size(), 3U) << "two encodings and the chance level";
  EXPECT_EQ(panel.curves[1].name, "rope");
  EXPECT_EQ(panel.curves[1].x, (std::vector<double>{32, 128}));
  EXPECT_EQ(panel.curves[1].y, (std::vector<double>{90, 50}));
  ASSERT_EQ(panel.curves[1].low.size(), 2U);
  EXPECT_NEAR(panel.curves[1].low[0], 80, 1e-9);
  EXPECT_NEAR(panel.curves[1].low[1], 40, 1e-9);
  EXPECT_NE(panel.curves[0].color, panel.curves[1].color);
  EXPECT_EQ(figure->panels[1].curves[1].color, panel.curves[1].color);
  EXPECT_EQ(panel.curves[2].y, (std::vector<double>{25, 12.5}))
      << "on the positions that the figures are over";
}

TEST(Charts, LinesThatEndApartHaveTheirNamesThere) {
  const TemporaryFolder folder;
  const auto panel = [&] {
    const Comparison comparison = compare(find_runs({folder.path()}));
    return length_figure(comparison.tasks[0], SeriesColors(comparison))->panels[0];
  };
  const auto write = [&](const std::string& encoding, double end) {
    write_run(folder / encoding,
              {.encoding = encoding, .rows = {{"longer", 1, 0.9}, {"longer", 4, end}}});
  };
  write("none", 0.5);
  write("rope", 0.9);
  const auto text = [](const draw::Note& note) { return note.text; };
  std::vector<std::string> names;
  const draw::Panel apart = panel();
  std::transform(apart.notes.begin(), apart.notes.end(), std::back_inserter(names), text);
  EXPECT_EQ(names, (std::vector<std::string>{"none", "rope", "chance"}));
  EXPECT_EQ(apart.notes[1].y, 90.0);
  write("alibi", 0.88);
  const draw::Panel near = panel();
  EXPECT_EQ(near.notes.size(), 2U) << "those of alibi and rope would cover each other";
  EXPECT_GT(*near.x.high, 128.0 * 1.15) << "room for the others";
}

TEST(Charts, FewSeedsAreDotsWithoutABand) {
  const TemporaryFolder folder;
  const Comparison comparison = two_encodings(folder, 2);
  const auto figure = length_figure(comparison.tasks[0], SeriesColors(comparison));
  const draw::Panel& panel = figure->panels[0];
  ASSERT_EQ(panel.curves.size(), 5U) << "a line and the dots of each, and the chance level";
  EXPECT_NEAR(panel.curves[0].y[1], 55, 1e-9);
  EXPECT_EQ(panel.curves[0].low, panel.curves[0].y);
  EXPECT_EQ(panel.curves[1].stroke, draw::Stroke::kDots);
  EXPECT_EQ(panel.curves[1].x, (std::vector<double>{32, 32, 128, 128}));
  EXPECT_EQ(panel.curves[1].y, (std::vector<double>{90, 90, 50, 60}));
  EXPECT_EQ(panel.curves[1].color, panel.curves[0].color);
}

TEST(Charts, CostsAreOfSpeedAndMemory) {
  const TemporaryFolder folder;
  const Comparison comparison = two_encodings(folder);
  const auto figure = cost_figure(comparison.tasks[0], SeriesColors(comparison));
  ASSERT_TRUE(figure.has_value());
  ASSERT_EQ(figure->panels.size(), 4U) << "in domain and beyond it";
  EXPECT_NO_THROW(validate(*figure));
  EXPECT_EQ(figure->panels[0].curves[0].x, std::vector<double>{2000});
  EXPECT_EQ(figure->panels[0].curves[1].x, std::vector<double>{1000});
  EXPECT_EQ(figure->panels[1].curves[0].x, std::vector<double>{1000.0 / (1 << 20)});
  EXPECT_EQ(figure->panels[2].curves[0].y, std::vector<double>{50});
  // The two points are one above the other; their labels are not.
  const auto& notes = figure->panels[1].notes;
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].y, notes[1].y);
}

void write_metrics(const std::string& run, int steps, int spike) {
  std::string text;
  for (int step = 1; step <= steps; ++step) {
    text += fmt::format(R"({{"kind": "train", "step": {}, "loss": {}, "accuracy": 0.5}})", step,
                        step == spike ? 99.0 : 1.0) +
            "\n";
  }
  testing::write_content(run + "/metrics.jsonl", text);
}

TEST(Charts, ManyStepsBecomeFewAndNoSpikeIsLost) {
  const TemporaryFolder folder;
  const Comparison comparison = two_encodings(folder);
  write_metrics(folder / "none", 5000, 3217);
  write_metrics(folder / "rope", 20, 0);
  std::vector<std::string> remarks;
  const Details details = read_details(comparison, remarks);
  EXPECT_TRUE(remarks.empty());
  const auto figure = training_figure(comparison.tasks[0], details, SeriesColors(comparison));
  ASSERT_TRUE(figure.has_value());
  ASSERT_EQ(figure->panels.size(), 2U) << "loss and accuracy";
  const draw::Curve& many = figure->panels[0].curves[0];
  EXPECT_LE(many.x.size(), 80U);
  EXPECT_GE(many.x.size(), 75U);
  EXPECT_EQ(*std::max_element(many.high.begin(), many.high.end()), 99.0);
  EXPECT_EQ(std::count(many.high.begin(), many.high.end(), 99.0), 1);
  EXPECT_EQ(figure->panels[0].curves[1].x.size(), 20U) << "few steps stay as they are";
}

TEST(Charts, ConditionsEvaluatedDuringTrainingHaveAPanelEach) {
  const TemporaryFolder folder;
  const Comparison comparison = two_encodings(folder);
  testing::write_content(folder / "rope/metrics.jsonl",
                         R"({"kind": "eval", "step": 5, "axis": "train", "length": 32, "value": 0.5}
{"kind": "eval", "step": 5, "axis": "sparse", "length": 64, "value": 0.25}
{"kind": "eval", "step": 9, "axis": "train", "length": 32, "value": 0.75}
)");
  std::vector<std::string> remarks;
  const Details details = read_details(comparison, remarks);
  const auto figure = training_figure(comparison.tasks[0], details, SeriesColors(comparison));
  ASSERT_TRUE(figure.has_value());
  ASSERT_EQ(figure->panels.size(), 2U);
  EXPECT_EQ(figure->panels[0].curves[0].y, (std::vector<double>{50.0, 75.0}));
  EXPECT_EQ(figure->panels[1].title, "sparse at length 64");
  EXPECT_EQ(figure->panels[1].curves[0].y, (std::vector<double>{25.0}));
}

TEST(Details, ADamagedFileIsARemark) {
  const TemporaryFolder folder;
  const Comparison comparison = two_encodings(folder);
  testing::write_content(folder / "rope/metrics.jsonl",
                         "garbage\n{\"kind\":\"train\",\"step\":1}\n");
  std::vector<std::string> remarks;
  const Details details = read_details(comparison, remarks);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_NE(remarks[0].find("rope is shown in part"), std::string::npos) << remarks[0];
  EXPECT_EQ(details.size(), 6U);
}

TEST(Details, CommandsAreReadyForAShell) {
  RunDetails run;
  run.environment = parse_json(
      R"({"command_line": ["train", "a b.yaml", "--set", "model.encoding=rope + cope", "it's"]})",
      "");
  EXPECT_EQ(command_of(run),
            "posenc train 'a b.yaml' --set 'model.encoding=rope + cope' 'it'\\''s'");
  EXPECT_EQ(command_of({}), "");
}

TEST(Details, MachinesInWords) {
  EXPECT_EQ(machine_text(parse_json(R"({"cpu": "tiny", "cores": 2, "threads": 1, "device": "cpu",
      "memory_bytes": 2147483648, "os": null, "posenc": "0.1", "commit": "0123456789abcdef"})",
                                    "")),
            "tiny, 2 cores, 2.0 GiB; 1 thread on cpu; posenc 0.1 (0123456789)");
}

}  // namespace
}  // namespace posenc::report
