// What a person reads, and what a program does.
#include "report/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/run_case.h"
#include "report/words.h"

namespace posenc::report {
namespace {

using testing::TemporaryFolder;
using testing::write_run;

Comparison two_encodings(const TemporaryFolder& folder, const std::string& second = "rope") {
  for (const std::string& encoding : {std::string("none"), second}) {
    for (int seed = 0; seed < 3; ++seed) {
      write_run(folder / fmt::format("{}-{}", encoding == "none" ? "none" : "second", seed),
                {.encoding = encoding,
                 .seed = seed,
                 .rows = {{"train", 1, 0.995, 0.99, 0.998},
                          {"longer", 1, 0.991, 0.98, 0.995},
                          {"longer", 2, 0.4524, 0.41, 0.4961, "", 0.25, 0.75},
                          {"longer", 4, 0.1, 0.05, 0.15},
                          {"longer", 8, 0.1, 0.05, 0.15}}});
    }
  }
  return compare(find_runs({folder.path()}));
}

TEST(TextTables, HaveFiguresIntervalsAndChance) {
  const TemporaryFolder folder;
  const auto tables = text_tables(two_encodings(folder), CurveLetters::kDigits);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_NE(tables[0].title.find("accuracy in %"), std::string::npos);
  EXPECT_EQ(tables[0].rows[0][2], "99.5 [99.0,99.8]");
  EXPECT_EQ(tables[0].rows.back()[0], "chance");
  EXPECT_EQ(tables[0].rows.back()[2], "25.0");
  const TextTable& axis = tables[1];
  EXPECT_EQ(axis.header,
            (std::vector<std::string>{"encoding", "1x", "1x seeds", "2x", "2x last 1/8", "2x all",
                                      "2x seeds", "4x", "4x last 1/8", "4x all", "4x seeds", "8x",
                                      "8x last 1/8", "8x all", "8x seeds", "effective"}));
  EXPECT_EQ(axis.rows[1][3], "45.2 [41.0,49.6]");
  EXPECT_EQ(axis.rows[1][4], "25.0");
  EXPECT_EQ(axis.rows[1][5], "75.0");
  EXPECT_EQ(axis.rows[1][6], "45.2 45.2 45.2");
  EXPECT_EQ(axis.rows[1].back(), "32");
  EXPECT_EQ(axis.rows.back()[3], "12.5") << "chance beyond the trained length";
  EXPECT_EQ(axis.rows.back()[5], "25.0") << "and over all positions";
}

TEST(TextTables, FewSeedsAreThePointsAlone) {
  const TemporaryFolder folder;
  write_run(folder / "0", {.seed = 0, .rows = {{"train", 1, 0.9, 0.8, 1.0}}});
  write_run(folder / "1", {.seed = 1, .rows = {{"train", 1, 0.7, 0.6, 0.8}}});
  const TextTable table =
      text_tables(compare(find_runs({folder.path()})), CurveLetters::kDigits).front();
  EXPECT_EQ(table.header[2], "in domain");
  EXPECT_EQ(table.header[3], "parameters") << "no column of seeds: they stand in the cell";
  EXPECT_EQ(table.rows[0][2], "90.0 70.0");
}

TEST(TextTables, SayHowManyRunsFailed) {
  const TemporaryFolder folder;
  for (int seed = 0; seed < 4; ++seed) {
    write_run(folder / std::to_string(seed), {.seed = seed, .rows = {{"train", 1, 0.8, 0.8, 0.8}}});
  }
  write_run(folder / "4", {.seed = 4}, runs::RunState::kDiverged);
  const auto table = [&] {
    return text_tables(compare(find_runs({folder.path()})), CurveLetters::kDigits).front();
  };
  EXPECT_EQ(table().rows[0][1], "1 of 5 diverged");
  EXPECT_EQ(table().rows[0][2].rfind("64.0 [", 0), 0U) << "it counts as 0: " << table().rows[0][2];
  EXPECT_EQ(table().rows[0][3], "80.0 80.0 80.0 80.0 x");
  EXPECT_EQ(table().notes.back(),
            "x: a run that diverged or failed; it counts as accuracy 0 % in the mean");
  write_run(folder / "5", {.seed = 5}, runs::RunState::kFailed);
  EXPECT_EQ(table().rows[0][1], "2 of 6 failed");
}

TEST(TextTables, LongSpecsAreSpelledOutBelow) {
  const TemporaryFolder folder;
  const std::string spec = "rope(theta=500000, schedule=linear(factor=4)) + alibi";
  const auto tables = text_tables(two_encodings(folder, spec), CurveLetters::kDigits);
  EXPECT_EQ(tables[0].rows[1][0].size(), 17U);
  EXPECT_EQ(tables[0].rows[1][0].rfind("#1 rope(theta", 0), 0U);
  EXPECT_EQ(tables[0].notes[0], "#1 " + spec);
}

TEST(TextTables, FitATerminal) {
  const TemporaryFolder folder;
  for (const TextTable& table : text_tables(two_encodings(folder), CurveLetters::kDigits)) {
    for (const std::size_t width : {100, 60, 30}) {
      std::size_t columns = 0;
      for (const TextTable& part : fitted(table, width)) {
        EXPECT_EQ(part.header[0], "encoding");
        ASSERT_EQ(part.rows.size(), table.rows.size());
        std::size_t wide = 0;
        for (std::size_t c = 0; c < part.header.size(); ++c) {
          std::size_t column = part.header[c].size();
          for (const auto& row : part.rows) column = std::max(column, row.at(c).size());
          wide += column + (c > 0 ? 2 : 0);
        }
        EXPECT_LE(wide, width);
        columns += part.header.size() - 1;
      }
      EXPECT_EQ(columns, table.header.size() - 1) << "none is lost";
    }
  }
}

TEST(TextTables, SayWhichAnswersWereNeverTrained) {
  const TemporaryFolder folder;
  write_run(folder / "a", {.rows = {{"beyond", 1, 0.9, 0.8, 1.0}}});
  const Comparison all = compare(find_runs({folder.path()}));
  EXPECT_EQ(text_tables(all, CurveLetters::kDigits)[1].rows.size(), 2U);
  Comparison half = all;
  half.tasks[0].entries[0].cells[0].trained_share = 0.5;
  const auto rows = text_tables(half, CurveLetters::kDigits)[1].rows;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2][0], "answers trained %");
  EXPECT_EQ(rows[2][1], "50.0");
}

TEST(DataForms, CsvHasARowPerFigure) {
  const TemporaryFolder folder;
  const std::string csv = to_csv(two_encodings(folder, "rope(theta=1, pairing=half)"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 31);
  for (const char* row : {",none,,longer,2,64,yes,headline,3,0,32,63,0.4524",
                          ",none,,longer,2,64,yes,last_eighth,3,0,56,63,0.25,0.25,0.25,0.125,",
                          ",none,,longer,2,64,yes,all,3,0,0,63,0.75,0.75,0.75,0.25,0.75 0.75 0.75,",
                          ",none,,train,1,32,no,headline,3,0,0,31,0.995,"}) {
    EXPECT_NE(csv.find(row), std::string::npos) << row << "\n" << csv;
  }
  EXPECT_NE(csv.find(",\"rope(theta=1, pairing=half)\","), std::string::npos) << csv;
}

TEST(TextTables, ShowGeneratedAnswersInTheMetric) {
  for (const bool rows : {false, true}) {
    const TemporaryFolder folder;
    testing::CaseRow row{.axis = "longer", .factor = 2, .value = 0.5};
    row.more = R"(, "free_running": {"samples": 8, "tokens": {"value": 0.75, "low": 0, "high": 1},
                  "rows": {"value": 0.25, "low": 0, "high": 1}})";
    write_run(folder / "0", {.metric = Metric::kError, .rows = {row}, .row_metric = rows});
    const auto table = text_tables(compare(find_runs({folder.path()})), CurveLetters::kDigits)[1];
    const auto column = std::find(table.header.begin(), table.header.end(), "2x generated");
    ASSERT_NE(column, table.header.end());
    EXPECT_EQ(table.rows[0][static_cast<std::size_t>(column - table.header.begin())],
              rows ? "75.0" : "25.0");
    const auto single = std::find(table.header.begin(), table.header.end(), "2x answers");
    ASSERT_EQ(single != table.header.end(), rows);
    if (!rows) continue;
    EXPECT_EQ(table.rows[0][static_cast<std::size_t>(single - table.header.begin())], "99.8")
        << "1 right of 400";
  }
}

TEST(Figures, OfErrorsKeepTwoDigits) {
  EXPECT_EQ(figure_text(0.0, Metric::kError), "0.0");
  EXPECT_EQ(figure_text(0.000123, Metric::kError), "0.012");
  EXPECT_EQ(figure_text(0.0123, Metric::kError), "1.2");
  EXPECT_EQ(figure_text(1.0, Metric::kError), "100.0");
}

TEST(DataForms, JsonHasEverything) {
  const TemporaryFolder folder;
  write_run(folder / "late", {.encoding = "cope", .seed = 9}, runs::RunState::kStopped);
  const auto parsed = nlohmann::json::parse(to_json(to_value(two_encodings(folder))));
  const auto& table = parsed["tasks"][0];
  EXPECT_EQ(table["metric"], "accuracy");
  EXPECT_EQ(table["entries"].size(), 2U);
  const auto& cell = table["entries"][0]["cells"][2];
  EXPECT_EQ(cell["axis"], "longer");
  EXPECT_EQ(cell["factor"], 2);
  EXPECT_EQ(cell["n"], 3);
  EXPECT_EQ(cell["failed"], 0);
  EXPECT_EQ(cell["beyond_training"], true);
  EXPECT_NEAR(cell["value"].get<double>(), 0.4524, 1e-12);
  EXPECT_NEAR(cell["low"].get<double>(), 0.41, 1e-12);
  EXPECT_EQ(cell["from"], 32);
  EXPECT_EQ(cell["to"], 63);
  EXPECT_EQ(cell["seeds"], nlohmann::json({0.4524, 0.4524, 0.4524}));
  EXPECT_EQ(cell["last_eighth"]["value"], 0.25);
  EXPECT_EQ(cell["all"]["chance"], 0.25);
  EXPECT_FALSE(table["findings"].empty());
  EXPECT_TRUE(table["best"].empty()) << "the two are alike";
  EXPECT_EQ(parsed["left_out"].size(), 1U);
}

}  // namespace
}  // namespace posenc::report
