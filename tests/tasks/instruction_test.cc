// Where a row says what is wanted of it.
#include <gtest/gtest.h>

#include <map>

#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

// The words of the region, or "-" where the task has none.
std::string instruction_words(const Task& task, const Batch& batch, std::int64_t row) {
  const auto first = static_cast<std::size_t>(row * batch.length);
  const auto region = task.instruction(
      std::span(batch.tokens).subspan(first, static_cast<std::size_t>(batch.length)));
  if (!region) return "-";
  const Words words = row_words(task, batch, row);
  std::string text;
  for (std::int64_t t = region->begin; t < region->end; ++t) {
    text += (text.empty() ? "" : " ") + words.at(static_cast<std::size_t>(t));
  }
  return text;
}

// What each kind of task asks for begins and ends like this.
TEST(Instruction, IsWhatTheRowAsksFor) {
  using Ends = std::pair<std::string, std::string>;
  const std::map<std::string, Ends> expected = {
      {"selective_counting", {"", "<sep>"}}, {"counting_program", {"print ", ""}},
      {"ith_word", {"<query> ", ""}},        {"last_sentence", {"<query> ", ""}},
      {"passkey", {"<query> ", ""}},         {"indirect_indexing", {", ", " ,"}}};
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    for (const Axis& axis : task->axes()) {
      const Condition condition{.axis = axis.name, .length = sample.length, .split = Split::kTest};
      const Batch batch = make_batch(*task, condition, 5, 0, 20);
      const auto found = expected.find(task->info().name);
      for (std::int64_t row = 0; row < batch.rows; ++row) {
        const std::string text = instruction_words(*task, batch, row);
        if (found == expected.end()) {
          EXPECT_EQ(text, "-") << sample.title;
          continue;
        }
        const auto& [begin, end] = found->second;
        ASSERT_GE(text.size(), begin.size() + end.size()) << sample.title;
        EXPECT_EQ(text.substr(0, begin.size()), begin) << sample.title << ": " << text;
        EXPECT_EQ(text.substr(text.size() - end.size()), end) << sample.title << ": " << text;
      }
    }
  }
}

TEST(Instruction, NamesTheCountedClasses) {
  const auto task = make_task(SelectiveCounting{});
  const Batch batch = make_batch(*task, {.axis = "train", .length = 32}, 1, 0, 8);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const Words words = row_words(*task, batch, row);
    EXPECT_EQ(instruction_words(*task, batch, row),
              "count " + words[2] + " and " + words[4] + " <sep>");
  }
}

}  // namespace
}  // namespace posenc::tasks
