// Answers that a model generates from its own outputs.
#include "train/free_running.h"

#include <gtest/gtest.h>

#include "tasks/task.h"

namespace posenc::train {
namespace {

tasks::Batch one_row(std::vector<std::int32_t> tokens, std::vector<std::int32_t> targets) {
  tasks::Batch batch;
  batch.rows = 1;
  batch.length = static_cast<std::int64_t>(tokens.size());
  batch.tokens = std::move(tokens);
  batch.targets = std::move(targets);
  return batch;
}

TEST(AnswerSpan, IsWhereEachAnswerIsTheNextToken) {
  const auto span = answer_span(one_row({5, 6, 9, 1, 2, 0}, {-1, -1, 1, 2, 3, -1}), 0);
  ASSERT_TRUE(span);
  EXPECT_EQ(span->begin, 2);
  EXPECT_EQ(span->end, 5);
  EXPECT_FALSE(answer_span(one_row({5, 6, 9, 7, 2}, {-1, -1, 1, 2, 3}), 0)) << "not shown";
  EXPECT_EQ(answer_span(one_row({5, 6, 9}, {-1, -1, 1}), 0)->begin, 2) << "one answer";
  EXPECT_FALSE(answer_span(one_row({5, 6, 9}, {-1, -1, -1}), 0)) << "none";
  EXPECT_FALSE(answer_span(one_row({5, 1, 9, 3}, {1, -1, 3, -1}), 0)) << "two spans";
}

class Generating : public ::testing::Test {
 protected:
  Generating() : task_(tasks::make_task(tasks::SelectiveCopy{.symbols = 4})) {
    config::ModelConfig config;
    config.encoding = {"rope"};
    config.layers = 2;
    config.dim = 16;
    config.heads = 2;
    model_ = model::Transformer(
        config,
        model::ModelContext{.vocabulary = task_->info().vocabulary, .train_length = 24, .seed = 2});
    model_->eval();
    setting_.train_length = 24;
    setting_.config.free_running = 5;
    setting_.config.seed = 8;
  }
  // Whole passes over what was said so far, one per answer.
  std::pair<std::int64_t, std::int64_t> by_whole_passes() {
    const at::NoGradGuard quiet;
    tasks::Batch batch;
    batch.rows = 5;
    task_->fill(condition_of({"train", 24}, setting_), 8, 0, batch);
    std::int64_t right = 0;
    std::int64_t rows = 0;
    for (std::int64_t r = 0; r < 5; ++r) {
      const AnswerSpan span = *answer_span(batch, r);
      at::Tensor said = at::empty({1, 24}, at::kLong);
      for (std::int64_t t = 0; t < 24; ++t)
        said[0][t] = batch.tokens[static_cast<std::size_t>(r * 24 + t)];
      std::int64_t of_row = 0;
      for (std::int64_t t = span.begin; t < span.end; ++t) {
        const auto token = model_->forward(said)[0][t].argmax().item<std::int64_t>();
        of_row += token == batch.targets[static_cast<std::size_t>(r * 24 + t)] ? 1 : 0;
        if (t + 1 < span.end) said[0][t + 1] = token;
      }
      right += of_row;
      rows += of_row == span.end - span.begin ? 1 : 0;
      answers_ += span.end - span.begin;
    }
    return {right, rows};
  }

  std::unique_ptr<tasks::Task> task_;
  model::Transformer model_{nullptr};
  EvalSetting setting_;
  std::int64_t answers_ = 0;
};

TEST_F(Generating, IsGreedyAndFeedsBackWhatItSaid) {
  const auto [right, rows] = by_whole_passes();
  const auto found = free_running(model_, *task_, {"train", 24}, setting_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->samples, 5);
  EXPECT_NEAR(found->tokens.value, static_cast<double>(right) / static_cast<double>(answers_),
              1e-12);
  EXPECT_NEAR(found->rows.value, static_cast<double>(rows) / 5.0, 1e-12);
}

TEST_F(Generating, IsLeftOutWhereThereIsNothingToGenerate) {
  setting_.config.free_running = 0;
  EXPECT_FALSE(free_running(model_, *task_, {"train", 24}, setting_));
  setting_.config.free_running = 5;
  const auto bits = tasks::make_task(tasks::FlipFlop{});
  EXPECT_FALSE(free_running(model_, *bits, {"train", 24}, setting_));
}

}  // namespace
}  // namespace posenc::train
