// Programs as the published generator makes them.
#include "tasks/counting_program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

struct Operations {
  double sets = 0;
  double increments = 0;
  double passes = 0;
};

Operations count_operations(const Words& words) {
  const auto count = [&](const char* word) {
    return static_cast<double>(std::count(words.begin(), words.end(), word));
  };
  return {count("="), count("++;"), count("pass;")};
}

TEST(CountingProgram, HasThePublishedTokens) {
  const CountingProgram config{.pass_weight = 3, .min_operations = 20, .max_operations = 20};
  const auto task = make_task(config);
  const Batch batch = make_batch(*task, {"train", 100}, 1, 0, 50);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    Words words = row_words(*task, batch, row);
    words.resize(static_cast<std::size_t>(index_of(words, "print")));
    const Operations found = count_operations(words);
    EXPECT_EQ(found.sets + found.increments + found.passes, 20);
    EXPECT_EQ(static_cast<double>(words.size()),
              4 * found.sets + 2 * found.increments + found.passes);
  }
}

// Known of the published generator: 13.5 % of its programs have more than 512 tokens.
TEST(CountingProgram, IsAsOftenTooLongAsThePublishedOne) {
  const auto task = make_task(CountingProgram{});
  const Batch batch = make_batch(*task, {"train", 2100}, 1, 0, 8000);
  std::int64_t longer = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    longer += task->token_text(batch.tokens[place(batch, row, 512)]) == "<pad>" ? 0 : 1;
  }
  EXPECT_NEAR(share(longer, 8000), 0.135, 0.012);
}

// After the first set each operation has its weight, but an increment of a full variable is drawn
// again: with half of the set variables full, increments have half of their weight.
TEST(CountingProgram, DrawsAnOperationAgainWhenItsVariableIsFull) {
  const CountingProgram config{.variables = 3,
                               .increment_weight = 20,
                               .min_operations = 200,
                               .max_operations = 200,
                               .max_value = 2};
  const auto task = make_task(config);
  for (const auto& [axis, pass] : {std::pair{"train", 50.0}, {"dense", 10.0}, {"sparse", 100.0}}) {
    const Batch batch = make_batch(*task, {axis, 900}, 1, 0, 100);
    Operations expected;
    Operations found;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(*task, batch, row);
      std::map<std::string, int> values;
      for (std::size_t t = 0; words[t] != "print"; ++t) {
        if (words[t] == ";" || words[t] == "=" || words[t] == "0") continue;
        const bool set = words[t + 1] == "=";
        const bool increment = words[t + 1] == "++;";
        if (!values.empty()) {
          const auto open = std::count_if(values.begin(), values.end(),
                                          [](const auto& entry) { return entry.second < 2; });
          const double weight = 20.0 * share(open, static_cast<std::int64_t>(values.size()));
          expected.sets += 1.0 / (1.0 + pass + weight);
          expected.increments += weight / (1.0 + pass + weight);
          found.sets += set ? 1 : 0;
          found.increments += increment ? 1 : 0;
        }
        if (set) values[words[t]] = 0;
        if (increment) ++values[words[t++]];
      }
    }
    EXPECT_NEAR(found.sets, expected.sets, 4 * std::sqrt(expected.sets)) << axis;
    EXPECT_NEAR(found.increments, expected.increments, 4 * std::sqrt(expected.increments)) << axis;
  }
}

TEST(CountingProgram, FirstSetIsGeometricAndNeverMissing) {
  const auto task = make_task(CountingProgram{.min_operations = 3, .max_operations = 3});
  const Batch batch = make_batch(*task, {"train", 20}, 1, 0, 6000);
  std::vector<int> at(3);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    ++at.at(static_cast<std::size_t>(index_of(words, "=") - 1));
  }
  const double q = 50.0 / 51.0;
  const double all = 1 + q + q * q;
  EXPECT_NEAR(share(at[0], 6000), 1 / all, 0.03);
  EXPECT_NEAR(share(at[2], 6000), q * q / all, 0.03);
}

// One operation is a set in half of the cases, one of two in three quarters.
TEST(CountingProgram, WithoutASetDrawsANewNumberOfOperations) {
  const CountingProgram config{
      .increment_weight = 0, .pass_weight = 1, .min_operations = 1, .max_operations = 2};
  const auto task = make_task(config);
  const Batch batch = make_batch(*task, {"train", 20}, 1, 0, 6000);
  std::int64_t one = 0;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Operations found = count_operations(row_words(*task, batch, row));
    one += found.sets + found.passes == 1 ? 1 : 0;
  }
  EXPECT_NEAR(share(one, 6000), 0.4, 0.03);
}

TEST(CountingProgram, ValuesStayInRangeAndVary) {
  const auto task = make_task(CountingProgram{.variables = 3});
  const Batch batch = make_batch(*task, {"dense", 512}, 1, 0, 2000);
  std::set<std::string> values;
  for (const std::int32_t target : batch.targets) {
    if (target != kUnscored) values.insert(task->token_text(target));
  }
  EXPECT_EQ(values.size(), 11u);  // 0 to 10
}

}  // namespace
}  // namespace posenc::tasks
