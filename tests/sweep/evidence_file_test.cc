// Evidence files: the sweeps and published tables of a page.
#include "sweep/evidence_file.h"

#include <gtest/gtest.h>

#include "support/message_of.h"

namespace posenc::sweep {
namespace {

using testing::message_of;

constexpr const char* kWhole = R"(question: Does it count?
base: base/count.yaml
parts:
  main:
    about: two encodings
    grid: {seed: [0, 1], model.encoding: [none, rope]}
    exclude: []
  deep-6:
    about: six layers
    base: base/deep.yaml
    also: [{seed: 0}, {seed: 1}]
published:
  - source: A paper, table 2
    part: deep-6
    metric: error
    where: {model.layers: 6, model.mlp: gelu}
    rows:
      - {name: RoPE, encoding: rope, values: {train: 1.8, sparse@512: 20.3}}
      - {name: PaTH, values: {train: 0}}
)";

EvidenceFile parsed(const std::string& yaml) { return parse_evidence(yaml, "dir/count.yaml"); }

TEST(EvidenceFile, HasSweepsInTheOrderOfTheFile) {
  const EvidenceFile file = parsed(kWhole);
  EXPECT_EQ(file.name, "count");
  EXPECT_EQ(file.question, "Does it count?");
  ASSERT_EQ(file.parts.size(), 2U);
  EXPECT_EQ(file.parts[0].name, "main");
  EXPECT_EQ(file.parts[0].about, "two encodings");
  EXPECT_EQ(file.parts[0].sweep.base, std::filesystem::path("dir/base/count.yaml"));
  EXPECT_EQ(file.parts[0].sweep.out, std::filesystem::path("runs/evidence/count/main"));
  EXPECT_EQ(file.parts[0].sweep.points.size(), 4U);
  EXPECT_EQ(file.parts[0].sweep.points[1],
            (std::vector<std::string>{"seed=0", "model.encoding=rope"}));
  EXPECT_EQ(file.part("deep-6").sweep.base, std::filesystem::path("dir/base/deep.yaml"));
  EXPECT_EQ(file.part("deep-6").sweep.points.size(), 2U);
}

TEST(EvidenceFile, HasMeasuredPartsNextToSweeps) {
  std::string yaml = kWhole;
  yaml.insert(yaml.find("published:"),
              "  cost:\n    about: a step\n    bench: train  --length 8\n");
  const EvidenceFile file = parsed(yaml);
  EXPECT_EQ(file.parts.size(), 2U);
  ASSERT_NE(file.measured_part("cost"), nullptr);
  EXPECT_EQ(file.measured_part("main"), nullptr);
  EXPECT_EQ(file.measured.front().about, "a step");
  EXPECT_EQ(file.measured.front().words, (std::vector<std::string>{"train", "--length", "8"}));
  EXPECT_EQ(file.measured.front().out, std::filesystem::path("runs/evidence/count/cost.json"));
  yaml.insert(yaml.find("    bench:"), "    grid: {seed: [0]}\n");
  EXPECT_NE(message_of([&] {
              (void)parsed(yaml);
            }).find("parts.cost.grid belongs to a sweep, and this part has bench"),
            std::string::npos);
}

TEST(EvidenceFile, HasPublishedTables) {
  const EvidenceFile file = parsed(kWhole);
  ASSERT_EQ(file.published.size(), 1U);
  const runs::PublishedTable& table = file.published[0];
  EXPECT_EQ(table.source, "A paper, table 2");
  EXPECT_EQ(table.part, "deep-6");
  EXPECT_EQ(table.metric, Metric::kError);
  using Fields = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(table.where, (Fields{{"model.layers", "6"}, {"model.mlp", "gelu"}}));
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0].encoding, "rope");
  EXPECT_EQ(table.rows[0].values[0].axis, "train");
  EXPECT_EQ(table.rows[0].values[0].length, 0);
  EXPECT_EQ(table.rows[0].values[1].axis, "sparse");
  EXPECT_EQ(table.rows[0].values[1].length, 512);
  EXPECT_DOUBLE_EQ(table.rows[0].values[1].value, 20.3);
  EXPECT_EQ(table.rows[1].name, "PaTH");
  EXPECT_EQ(table.rows[1].encoding, "");
}

TEST(EvidenceFile, MistakesNameTheirPlace) {
  const std::string part = "question: q\nbase: b\nparts: {main: {about: a, grid: {seed: [0]}}}\n";
  const auto table = [&](const std::string& fields) { return part + "published:\n  - " + fields; };
  const auto row = [&](const std::string& fields) {
    return table("{source: s, part: main, metric: error, rows: [" + fields + "]}\n");
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"base: b\nparts: {}\n", "question is required"},
      {"question: ''\nbase: b\nparts: {}\n", "question must not be empty (line 1"},
      {"question: q\nbase: b\n", "parts is required"},
      {"question: q\nparts: []\n", "parts must be a map with entries (line 2, column 8)"},
      {part + "publishd: []\n", "publishd is not a known key (line 4, column 1); did you mean"},
      {"question: q\nbase: b\nparts: {Main: {about: a, grid: {seed: [0]}}}\n",
       "parts.Main is not a name of a folder (line 3"},
      {"question: q\nbase: b\nparts: {../x: {about: a, grid: {seed: [0]}}}\n", "name of a folder"},
      {"question: q\nbase: b\nparts: {main: {grid: {seed: [0]}}}\n",
       "parts.main.about is required"},
      {"question: q\nparts: {main: {about: a, grid: {seed: [0]}}}\n",
       "parts.main.base is required (line 2"},
      {"question: q\nbase: b\nparts: {main: {about: a, gird: {}}}\n",
       "parts.main.gird is not a known key (line 3"},
      {"question: q\nbase: b\nparts: {main: {about: a}}\n", "parts.main.grid has no combinations"},
      {"question: q\nbase: b\nparts: {main: {about: a, grid: {seed: []}}}\n",
       "parts.main.grid.seed must have a value (line 3"},
      {part + "published: {}\n", "published must be a list with entries (line 4"},
      {table("{part: main, metric: error, rows: []}\n"), "published[0].source is required"},
      {table("{source: s, part: man, metric: error, rows: []}\n"),
       "published[0].part is not a part of this file (line 5, column 23) but got 'man'; did you "
       "mean"},
      {table("{source: s, part: main, metric: tokens_per_s, rows: []}\n"),
       "published[0].metric is not a metric of an evaluation"},
      {table("{source: s, part: main, metric: loss, rows: []}\n"), "published[0].metric"},
      {table("{source: s, part: main, metric: error, rows: []}\n"),
       "published[0].rows must be a list with entries"},
      {row("{name: R, values: {}}"), "published[0].rows[0].values must be a map with entries"},
      {row("{name: R, encoding: rop, values: {train: 1}}"),
       "published[0].rows[0].encoding is not an encoding (line 5"},
      {row("{name: R, values: {train: 101}}"),
       "published[0].rows[0].values.train must be in [0, 100] but got 101"},
      {row("{name: R, values: {train: good}}"), "values.train must be a number"},
      {row("{name: R, values: {sparse@: 1}}"), "must be named AXIS or AXIS@LENGTH"},
      {row("{name: R, values: {sparse@0: 1}}"), "must be named AXIS or AXIS@LENGTH"},
      {row("{name: R, values: {'@512': 1}}"), "must be named AXIS or AXIS@LENGTH"},
      {row("{name: R, values: {train: 1}, note: x}"), "rows[0].note is not a known key"},
  };
  for (const auto& [yaml, said] : cases) {
    const std::string message = message_of([&, text = yaml] { parsed(text); });
    EXPECT_NE(message.find(said), std::string::npos) << yaml << message;
    EXPECT_EQ(message.rfind("[dir/count.yaml]", 0), 0U) << message;
  }
}

TEST(EvidenceFile, BitsMayExceedOneHundred) {
  const std::string yaml =
      "question: q\nbase: b\nparts: {main: {about: a, grid: {seed: [0]}}}\npublished:\n"
      "  - {source: s, part: main, metric: bits_per_byte, rows: [{name: R, values: {longer: "
      "265}}]}\n";
  EXPECT_DOUBLE_EQ(parsed(yaml).published[0].rows[0].values[0].value, 265.0);
}

TEST(EvidenceFile, AnUnknownPartIsAnErrorThatSuggestsOne) {
  const EvidenceFile file = parsed(kWhole);
  const std::string message = message_of([&] { (void)file.part("deep"); });
  EXPECT_NE(message.find("--part must be a part of the file but got 'deep'"), std::string::npos)
      << message;
  EXPECT_NE(message.find("deep-6"), std::string::npos) << message;
}

}  // namespace
}  // namespace posenc::sweep
