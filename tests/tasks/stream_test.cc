// Rows are functions of (seed, condition, number): of nothing else, on no machine.
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "posenc/core/error.h"
#include "tasks/draw.h"
#include "tasks/generated_tasks.h"

namespace posenc::tasks {
namespace {

TEST(Streams, RowsDoNotDependOnTheSplitIntoBatches) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const Condition condition{task->axes().back().name, 2 * sample.length, sample.length};
    const Batch whole = make_batch(*task, condition, 9, 100, 31);
    Batch parts;
    for (const auto& [first, rows] : {std::pair{0, 1}, {1, 13}, {14, 17}}) {
      parts.rows = rows;  // the same batch again and again: nothing is left over in it
      task->fill(condition, 9, 100 + static_cast<std::uint64_t>(first), parts);
      const std::size_t start = place(whole, first, 0);
      for (std::size_t i = 0; i < parts.tokens.size(); ++i) {
        ASSERT_EQ(parts.tokens[i], whole.tokens[start + i]) << sample.title;
        ASSERT_EQ(parts.targets[i], whole.targets[start + i]) << sample.title;
      }
    }
  }
}

TEST(Streams, ThreadsShareATask) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const Condition condition{"train", sample.length};
    const Batch whole = make_batch(*task, condition, 2, 0, 32);
    std::vector<Batch> parts(4);
    std::vector<std::thread> threads;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      threads.emplace_back([&, k] { parts[k] = make_batch(*task, condition, 2, 8 * k, 8); });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<std::int32_t> tokens;
    for (const Batch& part : parts) {
      tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    }
    EXPECT_EQ(tokens, whole.tokens) << sample.title;
  }
}

TEST(Streams, SeedsRowsAndHeldOutSamplesDiffer) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const Condition condition{"train", sample.length};
    Condition held_out = condition;
    held_out.split = Split::kTest;
    const Batch batch = make_batch(*task, condition, 1, 0, 8);
    EXPECT_EQ(make_batch(*task, condition, 1, 0, 8).tokens, batch.tokens) << sample.title;
    EXPECT_NE(make_batch(*task, condition, 2, 0, 8).tokens, batch.tokens) << sample.title;
    EXPECT_NE(make_batch(*task, condition, 1, 8, 8).tokens, batch.tokens) << sample.title;
    EXPECT_NE(make_batch(*task, held_out, 1, 0, 8).tokens, batch.tokens) << sample.title;
  }
}

TEST(Streams, TokensAndTargetsAreInTheVocabularyAndHaveNames) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const TaskInfo& info = task->info();
    EXPECT_EQ(info.name, task_traits(sample.config).name);
    for (const Axis& axis : task->axes()) {
      EXPECT_EQ(axis.in_domain, axis.name == "train");
      EXPECT_FALSE(axis.doc.empty());
      const Batch batch =
          make_batch(*task, {axis.name, 4 * sample.length, sample.length}, 4, 0, 20);
      for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        ASSERT_TRUE(batch.tokens[i] >= 0 && batch.tokens[i] < info.vocabulary) << sample.title;
        ASSERT_TRUE(batch.targets[i] >= kUnscored && batch.targets[i] < info.vocabulary);
      }
    }
    std::set<std::string> names;
    for (std::int32_t token = 0; token < info.vocabulary; ++token) {
      EXPECT_TRUE(names.insert(task->token_text(token)).second)
          << sample.title << " has two tokens " << task->token_text(token);
    }
    EXPECT_THROW((void)task->token_text(static_cast<std::int32_t>(info.vocabulary)), Error);
    EXPECT_THROW((void)task->token_text(-1), Error);
  }
}

TEST(Streams, TheShortestRowIsTheOneThatIsPromised) {
  for (const SampleTask& sample : generated_tasks()) {
    const auto task = make_task(sample.config);
    const std::int64_t shortest = task->info().min_length;
    EXPECT_NO_THROW(make_batch(*task, {"train", shortest}, 1, 0, 50)) << sample.title;
    EXPECT_THROW(make_batch(*task, {"train", shortest - 1}, 1, 0, 1), Error) << sample.title;
    EXPECT_NO_THROW(make_batch(*task, {"train", task->info().length}, 1, 0, 1)) << sample.title;
  }
}

// A resumed run and a run on another machine see the same rows: these numbers change only when
// somebody means to change every published sample.
TEST(Streams, StayWhatTheyWere) {
  const auto fingerprint = [](const TaskConfig& config, std::int64_t length) {
    const Batch batch = make_batch(*make_task(config), {"train", length}, 1, 0, 64);
    std::uint64_t hash = 0;
    for (const std::int32_t token : batch.tokens)
      hash = mixed(hash ^ static_cast<std::uint64_t>(token));
    return hash;
  };
  EXPECT_EQ(fingerprint(SelectiveCounting{}, 32), 17939256197801836720u);
  EXPECT_EQ(fingerprint(FlipFlop{}, 512), 7889594726273575750u);
  EXPECT_EQ(fingerprint(NBack{}, 64), 12220061785450207552u);
}

}  // namespace
}  // namespace posenc::tasks
