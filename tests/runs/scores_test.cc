#include "runs/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "runs/files.h"
#include "runs/run_case.h"
#include "support/temporary_folder.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;
using testing::error_of;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

RunTallies example() {
  RunTallies scores{"0123abcd", {}};
  scores.conditions.push_back({"longer 128",
                               {},
                               {{{{1, 8, 0.5F}, {8, 8, 0.0F}},
                                 {{0, 1, 2.5F}, {1, 1, 0.125F}},
                                 {{9, 16, 0.75F}, {16, 16, kInfinity}}}}});
  scores.conditions.push_back({"test documents",
                               {7, 7, 4000000000U},
                               {{{{0, 70000, 1.0F}, {70000, 70000, 2.0F}, {3, 4, 3.0F}},
                                 {{0, 0, 0.0F}, {0, 0, 0.0F}, {0, 0, 0.0F}},
                                 {{1, 2, 3.0F}, {4, 5, 6.0F}, {7, 8, 9.0F}}}}});
  return scores;
}

class ScoresFile : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return scores_path(folder_.path()); }
  [[nodiscard]] std::string bytes() const { return read_file(path().string()); }
  // The Error for these bytes.
  [[nodiscard]] std::string error_for(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
    return error_of([&] { (void)read_scores(path()); });
  }
  [[nodiscard]] std::string refusal(const RunTallies& scores) const {
    return error_of([&] { write_scores(path(), scores); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ScoresFile, ReadsBackWhatWasWritten) {
  write_scores(path(), example());
  EXPECT_EQ(read_scores(path()), example());
  EXPECT_EQ(names_in(folder_.path()), std::vector<std::string>{"scores.bin"});
  write_scores(path(), {"hash", {}});
  EXPECT_EQ(read_scores(path()), (RunTallies{"hash", {}}));
}

TEST_F(ScoresFile, NamesAConditionByItsScheduleToo) {
  EXPECT_EQ(condition_name("longer", 128), "longer 128")
      << "as files from before schedules have it";
  RunTallies scores = example();
  scores.conditions.push_back(scores.conditions[0]);
  scores.conditions.back().name = condition_name("longer", 128, "yarn");
  write_scores(path(), scores);
  EXPECT_EQ(read_scores(path()).conditions.back().name, "longer 128 yarn");
}

TEST_F(ScoresFile, HasTheBytesOfTheManual) {
  write_scores(path(), {"h", {{"c", {}, {{{{1, 2, 1.0F}}, {{0, 1, 0.0F}}, {{3, 4, 2.0F}}}}}}});
  using namespace std::string_literals;
  EXPECT_EQ(bytes(),
            "PSNCROWS\1\0\0\0\1\0h\1\0\0\0\1\0c\1\0\0\0\0\2"
            "\1\0\2\0\0\0\x80\x3f"
            "\0\0\1\0\0\0\0\0"
            "\3\0\4\0\0\0\0\x40"s);
}

TEST_F(ScoresFile, EveryCutIsAnError) {
  write_scores(path(), example());
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_NE(error_for(whole.substr(0, size)), "") << size;
  }
  EXPECT_NE(error_for(whole + "x").find("is damaged or has another format; evaluate the run again"),
            std::string::npos);
  EXPECT_EQ(error_for(whole), "");
}

TEST_F(ScoresFile, AnotherVersionIsNamed) {
  write_scores(path(), example());
  std::string other = bytes();
  other[8] = 2;
  EXPECT_NE(error_for(other).find("version must be 1 but got 2"), std::string::npos);
  other[0] = 'Q';
  EXPECT_NE(error_for(other).find("is damaged"), std::string::npos);
}

TEST_F(ScoresFile, AHostileNumberOfRowsAllocatesNothing) {
  using namespace std::string_literals;
  const std::string head = "PSNCROWS\1\0\0\0\1\0h\1\0\0\0\1\0c"s;
  EXPECT_NE(error_for(head + "\xff\xff\xff\xff\0\4"s), "");
  EXPECT_NE(error_for(head + "\xff\xff\xff\xff\1\4"s), "");
  EXPECT_NE(error_for("PSNCROWS\1\0\0\0\1\0h\xff\xff\xff\xff"s), "");
}

TEST_F(ScoresFile, ScoresThatContradictThemselvesAreRefused) {
  const auto changed = [](auto change) {
    RunTallies scores = example();
    change(scores);
    return scores;
  };
  EXPECT_NE(refusal(changed([](RunTallies& s) {
              s.conditions[0].regions[1].pop_back();
            })).find("last_eighth of 'longer 128' must have 2 rows but got 1"),
            std::string::npos);
  EXPECT_NE(refusal(changed([](RunTallies& s) {
              s.conditions[0].regions[0][0].correct = 9;
            })).find("9 of 8 in row 0"),
            std::string::npos);
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[0].regions[0][1].loss = NAN; })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[0].regions[0][1].loss = -1; })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[1].regions[1][0].loss = 1; })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[1].clusters.pop_back(); })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[1].name = "longer 128"; })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[1].name = "two\nlines"; })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.evaluation_hash = ""; })), "");
  EXPECT_NE(refusal(changed([](RunTallies& s) { s.conditions[1].name = std::string(70000, 'a'); })),
            "");
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(ScoresFile, WhatTheWriterRefusesTheReaderRefusesToo) {
  write_scores(path(), {"h", {{"c", {}, {{{{1, 2, 1.0F}}, {{0, 1, 0.0F}}, {{3, 4, 2.0F}}}}}}});
  std::string lie = bytes();
  lie[lie.size() - 8] = 5;  // 5 of 4
  EXPECT_NE(error_for(lie).find("5 of 4 in row 0"), std::string::npos);
}

TEST(RowSums, AreInTheUnitOfTheMetric) {
  const std::vector<Tally> tallies = {{3, 4, static_cast<float>(std::log(2.0))}, {0, 0, 0.0F}};
  EXPECT_EQ(row_sums(tallies, Metric::kAccuracy)[0].total, 3.0);
  EXPECT_EQ(row_sums(tallies, Metric::kError)[0].total, 1.0);
  EXPECT_NEAR(row_sums(tallies, Metric::kBitsPerByte)[0].total, 1.0, 1e-6);
  EXPECT_EQ(row_sums(tallies, Metric::kError)[0].weight, 4.0);
  EXPECT_EQ(row_sums(tallies, Metric::kAccuracy)[1].weight, 0.0);
  EXPECT_TRUE(row_sums(tallies, Metric::kTokensPerSecond).empty());
}

TEST(RowSums, AWholeRowIsRightOrWrong) {
  const std::vector<Tally> tallies = {{4, 4, 0}, {3, 4, 0}, {0, 4, 0}, {0, 0, 0}};
  const auto right = whole_row_sums(tallies, Metric::kAccuracy);
  const auto wrong = whole_row_sums(tallies, Metric::kError);
  const double expected[] = {1.0, 0.0, 0.0};
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(right[row].total, expected[row]) << row;
    EXPECT_EQ(wrong[row].total, 1.0 - expected[row]) << row;
    EXPECT_EQ(right[row].weight, 1.0);
  }
  EXPECT_EQ(right[3].weight, 0.0);
  EXPECT_EQ(wrong[3].total, 0.0);
}

}  // namespace
}  // namespace posenc::runs
