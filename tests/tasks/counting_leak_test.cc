// The published reproduction of CoPE against RoPE had its answers in the input. These tests repeat that mistake
// on purpose (leak: true) and work out what its figures, 93 % at 1,024 positions and 45 % at 2,048, can mean.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "core/value.h"
#include "posenc/core/error.h"
#include "support/paths.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

SelectiveCounting leaking() {
  SelectiveCounting config = reproduction();
  config.leak = true;
  return config;
}

TEST(CountingLeak, TheAnswerStandsWhereItIsScoredAndIsTheTrueCount) {
  const auto task = make_task(leaking());
  for (const char* axis : {"train", "longer", "beyond"}) {
    const Batch batch = make_batch(*task, {axis, 96, 64}, 5, 0, 50);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(*task, batch, row);
      ASSERT_EQ(words[94], "<query>");
      for (std::int64_t t = 0; t < 95; ++t) {
        ASSERT_EQ(batch.targets[place(batch, row, t)], kUnscored);
      }
      ASSERT_EQ(words[95], task->token_text(batch.targets[place(batch, row, 95)]));
      const Solution counted = counting_solver(false, 10)(Words(words.begin(), words.begin() + 95));
      ASSERT_EQ(words[95], counted.answer) << render(*task, batch, row);
    }
  }
}

// Longer rows keep the labels of training, as they do without the leak.
TEST(CountingLeak, LongerRowsKeepTheTrainedLabels) {
  const auto task = make_task(leaking());
  EXPECT_GT(task->trained_share({"longer", 2048, 1024, Split::kTest}), 0.9);
  EXPECT_LT(task->trained_share({"beyond", 2048, 1024, Split::kTest}), 0.5);
}

TEST(CountingLeak, IsAnnounced) {
  EXPECT_EQ(make_task(leaking())->warning(),
            "selective_counting has leak: true, so the answer is in the input where it is scored: "
            "scores measure copying, not counting");
  EXPECT_EQ(make_task(reproduction())->warning(), "");
  EXPECT_EQ(make_task(FlipFlop{})->warning(), "");
}

TEST(CountingLeak, NeedsASinglePlaceForTheAnswer) {
  try {
    make_task(SelectiveCounting{.leak = true});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "[selective_counting] leak must be false where answer is running but got true; set "
        "answer: final");
  }
  EXPECT_EQ(make_task(leaking())->info().min_length,
            make_task(reproduction())->info().min_length + 1);
}

// How often each label is the answer in the first rows of a condition.
std::map<std::int32_t, int> label_counts(const Task& task, const Condition& condition,
                                         std::int64_t rows) {
  const Batch batch = make_batch(task, condition, 0, 0, rows);
  std::map<std::int32_t, int> counts;
  for (std::int64_t row = 0; row < rows; ++row) {
    ++counts[batch.targets[place(batch, row, batch.length - 1)]];
  }
  return counts;
}

// The share of rows whose label is among those that training gave at least `times` times.
double seen_share(const std::map<std::int32_t, int>& trained,
                  const std::map<std::int32_t, int>& tested, int times) {
  std::int64_t seen = 0;
  std::int64_t all = 0;
  for (const auto& [label, count] : tested) {
    const auto found = trained.find(label);
    all += count;
    seen += found != trained.end() && found->second >= times ? count : 0;
  }
  return share(seen, all);
}

// Labels in the rows of training and of both tests. 1,000 steps of 4 rows are all that the published models saw.
struct Seen {
  std::map<std::int32_t, int> trained;
  std::map<std::int32_t, int> at_1024;
  std::map<std::int32_t, int> at_2048;

  Seen() {
    const auto task = make_task(leaking());
    trained = label_counts(*task, {"train", 1024, 1024, Split::kTrain}, 4000);
    at_1024 = label_counts(*task, {"train", 1024, 1024, Split::kTest}, 4000);
    at_2048 = label_counts(*task, {"beyond", 2048, 1024, Split::kTest}, 4000);
  }
};

constexpr int kMostTimes = 20;

std::string table_row(const std::string& title, const Seen& seen,
                      const std::map<std::int32_t, int>& tested) {
  std::string text = "| " + title + " |";
  for (int times = 1; times <= kMostTimes; ++times) {
    text += fmt::format(" {:.1f} |", 100 * seen_share(seen.trained, tested, times));
  }
  return text + "\n";
}

std::string table_of_seen_labels() {
  const Seen seen;
  std::string text = "| seen at least |";
  std::string rule = "| --- |";
  for (int times = 1; times <= kMostTimes; ++times) {
    text += fmt::format(" {} |", times);
    rule += " --- |";
  }
  return text + "\n" + rule + "\n" + table_row("1,024 positions", seen, seen.at_1024) +
         table_row("2,048 positions", seen, seen.at_2048);
}

TEST(CountingLeak, ThePageHasTheSharesOfLabelsThatTrainingHasSeen) {
  const std::string page =
      read_file(std::string(posenc::testing::kTestData) + "/../docs/evidence/counting-1024.md");
  const std::string table = table_of_seen_labels();
  fmt::print("{}", table);
  EXPECT_NE(page.find("\n" + table + "\n"), std::string::npos)
      << "docs/evidence/counting-1024.md must have this table:\n"
      << table;
}

// Copying a token needs an input vector and an output vector for it, which a label that training never gave does not
// have. The published pairs are 93.2 and 45.2 % (RoPE), 94.8 and 45.6 % (CoPE).
TEST(CountingLeak, CopyingTheLabelsSeenSixteenToTwentyTimesGivesThePublishedFigures) {
  const Seen seen;
  for (int times = 16; times <= kMostTimes; ++times) {
    EXPECT_NEAR(seen_share(seen.trained, seen.at_1024, times), 0.94, 0.015) << times;
    EXPECT_NEAR(seen_share(seen.trained, seen.at_2048, times), 0.454, 0.015) << times;
  }
  EXPECT_GT(seen_share(seen.trained, seen.at_1024, 1), 0.99);
  EXPECT_LT(seen_share(seen.trained, seen.at_2048, 1), 0.51) << "half of the labels never occur";
}

}  // namespace
}  // namespace posenc::tasks
