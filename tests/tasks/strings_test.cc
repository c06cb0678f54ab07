// Strings that are reversed, sorted or indexed, and products of permutations.
#include <gtest/gtest.h>

#include <set>

#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

using Kind = Chomsky::Kind;

// How often the input of a row has each size.
std::map<std::ptrdiff_t, int> input_sizes(Kind kind, const Condition& condition) {
  const auto task = make_task(Chomsky{kind});
  const Batch batch = make_batch(*task, condition, 1, 0, 4000);
  std::map<std::ptrdiff_t, int> sizes;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    ++sizes[index_of(row_words(*task, batch, row), "|")];
  }
  return sizes;
}

TEST(ChomskyRows, HaveInputsOfEverySizeThatFits) {
  for (const auto& [kind, sizes] : {std::pair{Kind::kReverse, 10},
                                    {Kind::kEvenPairs, 19},
                                    {Kind::kDuplicate, 6},
                                    {Kind::kStack, 9}}) {
    const auto found = input_sizes(kind, {"train", 20});
    EXPECT_EQ(found.size(), static_cast<std::size_t>(sizes));
    EXPECT_EQ(found.begin()->first, 1);
    EXPECT_EQ(found.rbegin()->first, sizes);
    for (const auto& [size, count] : found) EXPECT_NEAR(share(count, 4000), 1.0 / sizes, 0.035);
  }
  const auto even = input_sizes(Kind::kMissingDuplicate, {"train", 20});
  EXPECT_EQ(even.size(), 9u);  // 2, 4, ..., 18
  for (const auto& [size, count] : even) EXPECT_EQ(size % 2, 0);
}

TEST(ChomskyRows, OfAxisLongerDoNotFitTheTrainingLength) {
  const auto longer = input_sizes(Kind::kReverse, {"longer", 40, 20});
  EXPECT_EQ(longer.begin()->first, 11);
  EXPECT_EQ(longer.rbegin()->first, 20);
  const auto same = input_sizes(Kind::kReverse, {"longer", 20, 20});
  EXPECT_EQ(same.begin()->first, 1);
  const auto one_more = input_sizes(Kind::kReverse, {"longer", 21, 20});  // no larger size fits
  EXPECT_EQ(one_more.begin()->first, 10);
}

TEST(ChomskyRows, OfAStackPopPushAndRunEmpty) {
  const auto task = make_task(Chomsky{Kind::kStack});
  const Batch batch = make_batch(*task, {"train", 41}, 1, 0, 2000);
  std::map<std::string, std::int64_t> seen;
  std::int64_t empty = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    const std::ptrdiff_t separator = index_of(words, "|");
    for (std::ptrdiff_t t = 0; t < separator; ++t) ++seen[words[static_cast<std::size_t>(t)]];
    empty += task->token_text(batch.targets[place(batch, row, separator)]) == "<end>" ? 1 : 0;
  }
  const std::int64_t operations = seen["pop"] + seen["push0"] + seen["push1"];
  EXPECT_NEAR(share(seen["pop"], operations), 1.0 / 3, 0.02);
  EXPECT_NEAR(share(seen["push1"], operations), 1.0 / 3, 0.02);
  EXPECT_NEAR(share(seen["0"], seen["0"] + seen["1"]), 0.5, 0.02);
  EXPECT_GT(empty, 20);
}

TEST(ChomskyRows, MissASymbolInEitherCopy) {
  const auto task = make_task(Chomsky{Kind::kMissingDuplicate});
  const Batch batch = make_batch(*task, {"train", 21}, 1, 0, 2000);
  std::int64_t first = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    first += index_of(words, "_") < index_of(words, "|") / 2 ? 1 : 0;
  }
  EXPECT_NEAR(share(first, 2000), 0.5, 0.04);
}

TEST(WordProblemRows, UseEveryElementOfTheGroup) {
  using Group = WordProblem::Group;
  for (const auto& [group, elements] :
       {std::pair{Group::kS3, 6U}, {Group::kS5, 120U}, {Group::kA5, 60U}}) {
    const auto task = make_task(WordProblem{.group = group});
    const Batch batch = make_batch(*task, {"train", 101}, 1, 0, 100);
    std::set<std::int32_t> seen;
    std::set<std::int32_t> answers;
    std::int64_t same = 0;
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
      if (batch.targets[i] == kUnscored) continue;
      seen.insert(batch.tokens[i]);
      answers.insert(batch.targets[i]);
      same += i % 101 > 1 && batch.tokens[i] == batch.targets[i] ? 1 : 0;
    }
    EXPECT_EQ(seen.size(), elements);
    EXPECT_EQ(answers, seen) << "a group is closed";
    EXPECT_NEAR(share(same, 100 * 99), 1.0 / elements, 0.015);
  }
}

TEST(IndirectIndexingRows, HaveThePublishedStringsAndDistances) {
  const auto task = make_task(IndirectIndexing{});
  const Batch batch = make_batch(*task, {"train", 45}, 1, 0, 8000);
  std::map<std::ptrdiff_t, int> sizes;
  std::map<int, int> shifts;
  std::set<std::string> letters;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    const std::ptrdiff_t size = index_of(words, ",");
    const std::string& source = words.at(static_cast<std::size_t>(size) + 1);
    ++sizes[size];
    ++shifts[std::stoi(words.at(static_cast<std::size_t>(size) + 3))];
    EXPECT_EQ(std::count(words.begin(), words.begin() + size, source), 1);
    letters.insert(words.begin(), words.begin() + size);
  }
  EXPECT_EQ(sizes.begin()->first, 20);
  EXPECT_EQ(sizes.rbegin()->first, 40);
  for (const auto& [size, count] : sizes) EXPECT_NEAR(share(count, 8000), 1.0 / 21, 0.012);
  EXPECT_EQ(shifts.size(), 30u);
  EXPECT_EQ(shifts.begin()->first, -15);
  EXPECT_EQ(shifts.rbegin()->first, 15);
  EXPECT_EQ(shifts.count(0), 0u);
  EXPECT_NEAR(share(shifts[-3], shifts[3]), 1.0, 0.2);
  EXPECT_EQ(letters.size(), 52u);
  const Batch longer = make_batch(*task, {"longer", 90, 45}, 1, 0, 20);
  for (std::int64_t row = 0; row < longer.rows; ++row) {
    EXPECT_EQ(index_of(row_words(*task, longer, row), ","), 85);
  }
}

}  // namespace
}  // namespace posenc::tasks
