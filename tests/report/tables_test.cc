// What a person reads, and what a program does.
#include "report/tables.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/run_case.h"

namespace posenc::report {
namespace {

using testing::TemporaryFolder;
using testing::write_run;

Comparison two_encodings(const TemporaryFolder& folder, const std::string& second = "rope") {
  for (const std::string& encoding : {std::string("none"), second}) {
    write_run(folder / (encoding == "none" ? "none" : "second"),
              {.encoding = encoding,
               .rows = {{"train", 1, 0.995, 0.99, 0.998},
                        {"longer", 1, 0.991, 0.98, 0.995},
                        {"longer", 2, 0.4524, 0.41, 0.4961},
                        {"longer", 4, 0.1, 0.05, 0.15},
                        {"longer", 8, 0.1, 0.05, 0.15}}});
  }
  return compare(find_runs({folder.path()}));
}

TEST(TextTables, HaveFiguresIntervalsAndChance) {
  const TemporaryFolder folder;
  const auto tables = text_tables(two_encodings(folder));
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_NE(tables[0].title.find("accuracy in %"), std::string::npos);
  EXPECT_EQ(tables[0].rows[0][2], "99.5 [99.0,99.8]");
  EXPECT_EQ(tables[0].rows.back()[0], "chance");
  EXPECT_EQ(tables[0].rows.back()[2], "12.5");
  EXPECT_EQ(tables[1].header,
            (std::vector<std::string>{"encoding", "1x", "2x", "4x", "8x", "effective"}));
  EXPECT_EQ(tables[1].rows[1][2], "45.2 [41.0,49.6]");
  EXPECT_EQ(tables[1].rows[1][5], "32");
  EXPECT_EQ(tables[1].rows.back()[4], "12.5");
}

TEST(TextTables, LongSpecsAreSpelledOutBelow) {
  const TemporaryFolder folder;
  const std::string spec = "rope(theta=500000, schedule=linear(factor=4)) + alibi";
  const auto tables = text_tables(two_encodings(folder, spec));
  EXPECT_EQ(tables[0].rows[1][0].size(), 17U);
  EXPECT_EQ(tables[0].rows[1][0].rfind("#1 rope(theta", 0), 0U);
  EXPECT_EQ(tables[0].notes[0], "#1 " + spec);
}

TEST(TextTables, FitATerminal) {
  const TemporaryFolder folder;
  for (const TextTable& table : text_tables(two_encodings(folder))) {
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
  EXPECT_EQ(text_tables(all)[1].rows.size(), 2U);
  Comparison half = all;
  half.tasks[0].entries[0].cells[0].trained_share = 0.5;
  const auto rows = text_tables(half)[1].rows;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[2][0], "answers trained %");
  EXPECT_EQ(rows[2][1], "50.0");
}

TEST(DataForms, CsvHasARowPerFigure) {
  const TemporaryFolder folder;
  const std::string csv = to_csv(two_encodings(folder, "rope(theta=1, pairing=half)"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 11);
  EXPECT_NE(csv.find("selective_counting,accuracy,,none,,longer,2,64,1,0.4524,0.41,0.4961,0.125,1"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find(",\"rope(theta=1, pairing=half)\","), std::string::npos) << csv;
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
  EXPECT_EQ(cell["n"], 1);
  EXPECT_EQ(cell["value"], 0.4524);
  EXPECT_EQ(cell["low"], 0.41);
  EXPECT_EQ(parsed["left_out"].size(), 1U);
}

}  // namespace
}  // namespace posenc::report
