// Keys, distractors and depths.
#include "tasks/passkey.h"

#include <gtest/gtest.h>

#include <set>

#include "posenc/core/error.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

double depth_of(const Task& task, const Batch& batch, std::int64_t row) {
  const auto length = static_cast<std::size_t>(batch.length);
  return task.depth(std::span(batch.tokens).subspan(place(batch, row, 0), length)).value();
}

// The share of idle words before the key whose name the row asks for.
double depth_in_words(const Words& words) {
  const Words text(words.begin(), words.begin() + index_of(words, "<query>"));
  const std::string& name = words.at(text.size() + 1);
  std::int64_t idle = 0;
  std::int64_t before = -1;
  for (std::size_t t = 0; t < text.size(); ++t) {
    if (text[t] == "<key>" && text.at(t + 1) == name) before = idle;
    idle += text[t].size() > 1 && text[t].front() == 'f' ? 1 : 0;
  }
  return share(before, idle);
}

TEST(PasskeyRows, HideTheKeyAnywhere) {
  for (const std::int64_t distractors : {0, 3}) {
    const auto task = make_task(Passkey{.distractors = distractors});
    const Batch batch = make_batch(*task, {"train", 112}, 1, 0, 4000);
    std::vector<int> quarter(4);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const double depth = depth_of(*task, batch, row);
      EXPECT_DOUBLE_EQ(depth, depth_in_words(row_words(*task, batch, row)));
      ++quarter.at(std::min<std::size_t>(3, static_cast<std::size_t>(4 * depth)));
    }
    for (const int count : quarter) EXPECT_NEAR(share(count, 4000), 0.25, 0.04);
  }
}

TEST(PasskeyRows, ADepthMovesTheKeyAndNothingElse) {
  const auto task = make_task(Passkey{.digits = 4, .distractors = 2});
  const auto rows = [&](double depth) {
    return make_batch(*task, {"longer", 400, 128, Split::kTest, depth}, 1, 0, 20);
  };
  const Batch start = rows(0.0);
  for (const double depth : {0.0, 0.25, 0.5, 1.0}) {
    const Batch batch = rows(depth);
    EXPECT_EQ(batch.targets, start.targets);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      EXPECT_NEAR(depth_of(*task, batch, row), depth, 0.002);
      Words sorted = row_words(*task, batch, row);
      Words expected = row_words(*task, start, row);
      std::sort(sorted.begin(), sorted.end());
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(sorted, expected);
    }
  }
}

TEST(PasskeyRows, DistractorsHaveOtherNamesAtOtherPlaces) {
  const auto task = make_task(Passkey{.digits = 2, .distractors = 5});
  const Batch batch = make_batch(*task, {"train", task->info().min_length + 40}, 1, 0, 500);
  std::vector<int> rank(6);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    const std::string& name = words.at(static_cast<std::size_t>(index_of(words, "<query>")) + 1);
    std::set<std::string> names;
    for (std::size_t t = 0; t < words.size(); ++t) {
      if (words[t] != "<key>") continue;
      if (words[t + 1] == name) ++rank.at(names.size());
      names.insert(words[t + 1]);
    }
    EXPECT_EQ(names.size(), 6u);
  }
  for (const int count : rank) EXPECT_NEAR(share(count, 500), 1.0 / 6, 0.06);
}

TEST(Conditions, FixADepthOnlyWhereThereIsOne) {
  const auto message = [](const TaskConfig& config, double depth) -> std::string {
    try {
      make_batch(*make_task(config), {"train", 64, 64, Split::kTrain, depth}, 1, 0, 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(Passkey{}, 0.5), "no error");
  EXPECT_EQ(message(Passkey{}, 1.5), "[passkey] depth must be in [0, 1] but got 1.5");
  EXPECT_EQ(message(FlipFlop{}, 0.5),
            "[flip_flop] depth is not a property of this task; leave it out");
  EXPECT_FALSE(make_task(FlipFlop{})->info().has_depth);
  EXPECT_EQ(make_task(FlipFlop{})->depth({}), std::nullopt);
}

}  // namespace
}  // namespace posenc::tasks
