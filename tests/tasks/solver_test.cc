// No input holds its answer: every target follows from the words up to its position, by a solver that
// shares no code with the generator, and neither one token nor one place gives it away.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "support/sanitizers.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

// `visit(sample, task, condition)` for every axis at the training length and at three times it.
template <class Visit>
void for_every_condition(Visit visit) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    for (const Axis& axis : task->axes()) {
      const std::int64_t step = 2 - sample.length % 2;  // keep even lengths even
      for (const std::int64_t length : {sample.length, 3 * sample.length + step}) {
        if (sample.title.starts_with("mqar") && axis.name == "more" && length > sample.length) {
          continue;  // has more pairs than its solver was told of; see MqarRows
        }
        SCOPED_TRACE(sample.title + ", axis " + axis.name + ", length " + std::to_string(length));
        visit(sample, *task, Condition{axis.name, length, sample.length, Split::kTest});
      }
    }
  }
}

TEST(Solvers, FindEveryTargetInTheWordsUpToIt) {
  for_every_condition([](const SampleTask& sample, const Task& task, const Condition& condition) {
    const Batch batch = make_batch(task, condition, 7, 0, 12);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const Words words = row_words(task, batch, row);
      std::int64_t scored = 0;
      for (std::int64_t t = 0; t < batch.length; ++t) {
        const Solution solution = sample.solve(Words(words.begin(), words.begin() + t + 1));
        const std::int32_t target = batch.targets[place(batch, row, t)];
        if (target == kUnscored) {
          ASSERT_TRUE(!solution.asked || sample.fillers_may_ask) << render(task, batch, row);
          continue;
        }
        ++scored;
        ASSERT_TRUE(solution.asked) << t << "\n" << render(task, batch, row);
        if (solution.lost) continue;
        ASSERT_EQ(solution.answer, task.token_text(target)) << t << "\n"
                                                            << render(task, batch, row);
      }
      ASSERT_GT(scored, 0) << render(task, batch, row);
    }
  });
}

// Answers may be lost only where a program was cut, as the paper has it, and not often.
TEST(Solvers, OnlyCutProgramsLoseTheirAnswers) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const Batch batch = make_batch(*task, {"train", sample.length}, 3, 0, 200);
    int lost = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      Words words = row_words(*task, batch, row);
      for (std::int64_t t = batch.length; t-- > 0; words.pop_back()) {
        if (batch.targets[place(batch, row, t)] == kUnscored) continue;
        lost += sample.solve(words).lost ? 1 : 0;
        break;
      }
    }
    const bool may_lose = sample.title == "program cut";
    EXPECT_EQ(lost > 0, may_lose) << sample.title << " lost " << lost;
    EXPECT_LT(lost, 100) << sample.title;
  }
}

// Whether the answer changes when one word is changed for another.
bool hangs_on_a_word(const Solver& solve, const Words& words, const std::set<std::string>& others) {
  const Solution before = solve(words);
  for (std::size_t s = 0; s < words.size(); ++s) {
    for (const std::string& other : others) {
      Words altered = words;
      altered[s] = other;
      try {
        const Solution after = solve(altered);
        if (after.asked && after.answer != before.answer) return true;
      } catch (const std::exception&) {  // no longer a sample of the task
      }
    }
  }
  return false;
}

// Changing one earlier word for another of this row or the next changes the answer somewhere: what is
// scored hangs on the content, not on the place.
TEST(Solvers, AnswersHangOnEarlierWords) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const Batch batch = make_batch(*task, {"train", sample.length}, 5, 0, 20);
    int changed = 0;
    int rows = 0;
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      Words words = row_words(*task, batch, row);
      std::set<std::string> others(words.begin(), words.end());
      for (const std::string& word : row_words(*task, batch, (row + 1) % batch.rows)) {
        others.insert(word);
      }
      bool lost = false;
      bool hangs = false;
      for (std::int64_t t = batch.length; t-- > 0 && !hangs; words.pop_back()) {
        if (batch.targets[place(batch, row, t)] == kUnscored) continue;
        lost = sample.solve(words).lost;
        hangs = !lost && hangs_on_a_word(sample.solve, words, others);
      }
      rows += lost ? 0 : 1;
      changed += hangs ? 1 : 0;
    }
    EXPECT_GE(changed, rows - 2) << sample.title;
  }
}

// A reader of one token, at any fixed distance before the question or at the question itself, who
// has seen half of the rows, must stay far from right on the other half.
double best_single_token(const Batch& batch, std::int64_t vocabulary, std::int64_t distance) {
  std::vector<std::map<std::int32_t, int>> seen(static_cast<std::size_t>(vocabulary));
  std::int64_t scored = 0;
  std::int64_t judged = 0;
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < batch.rows * batch.length; ++i) {
    const std::int32_t target = batch.targets[static_cast<std::size_t>(i)];
    scored += target == kUnscored ? 0 : 1;
    if (target == kUnscored || i % batch.length < distance) continue;
    const auto token =
        static_cast<std::size_t>(batch.tokens[static_cast<std::size_t>(i - distance)]);
    auto& answers = seen[token];
    if (i / batch.length < batch.rows / 2) {
      ++answers[target];
      continue;
    }
    ++judged;
    const auto best = std::max_element(answers.begin(), answers.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    right += best != answers.end() && best->first == target ? 1 : 0;
  }
  // At a distance that few rows have, those rows are known.
  return judged < 100 || judged < scored / 20 ? 0.0 : share(right, judged);
}

TEST(Solvers, NoSingleTokenGivesTheAnswerAway) {
  constexpr std::int64_t kStep = testing::kSanitized ? 17 : 1;
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const Condition condition{"train", sample.length, sample.length};
    const Batch batch = make_batch(*task, condition, 11, 0, 2000);
    const double value = task->chance(condition);
    const bool whole_rows = task->info().row_metric;  // of which one position says little
    const double chance = whole_rows                              ? 0.1
                          : task->info().metric == Metric::kError ? 1.0 - value
                                                                  : value;
    for (std::int64_t distance = 0; distance < sample.length; distance += kStep) {
      const double accuracy = best_single_token(batch, task->info().vocabulary, distance);
      EXPECT_LT(accuracy, chance + 0.5 * (1.0 - chance))
          << sample.title << " at distance " << distance << ", chance " << chance;
    }
  }
}

// The mistake of the reproduction: the label stands in the input. Here no label ever does.
TEST(Solvers, CountsAreNeverWrittenInTheInput) {
  for (const SampleTask& sample : generated_tasks()) {
    if (!sample.title.starts_with("counting")) continue;
    const auto task = make_task(sample.config);
    for (const Axis& axis : task->axes()) {
      const Batch batch = make_batch(*task, {axis.name, 128, 64}, 1, 0, 50);
      for (const std::int32_t token : batch.tokens) {
        ASSERT_FALSE(is_number(task->token_text(token))) << sample.title;
      }
    }
  }
}

}  // namespace
}  // namespace posenc::tasks
