#include "config/rate.h"

#include <gtest/gtest.h>

namespace posenc::config {
namespace {

TEST(LearningRate, RisesThenFallsToTheEnd) {
  TrainConfig train;
  train.steps = 100;
  train.lr = 1.0;
  train.warmup = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(train, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(train, 10), 1.0);
  EXPECT_NEAR(learning_rate(train, 55), 0.5, 1e-12);
  EXPECT_NEAR(learning_rate(train, 99), 0.0, 1e-3);
  train.schedule = RateSchedule::kLinear;
  train.min_lr = 0.2;
  EXPECT_NEAR(learning_rate(train, 55), 0.6, 1e-12);
  train.schedule = RateSchedule::kConstant;
  EXPECT_DOUBLE_EQ(learning_rate(train, 99), 1.0);
}

TEST(LearningRate, WarmUpMayBeCountedInSteps) {
  TrainConfig train;
  train.steps = 100;
  train.lr = 1.0;
  train.warmup = 4;
  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(train, 3), 1.0);
  train.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(train, 0), 1.0);
}

TEST(Stages, RowsAreCountedAcrossTheCurriculum) {
  TrainConfig train;
  train.stages = {{.length = 8, .batch = 4, .steps = 3}, {.length = 16, .batch = 2, .steps = 5}};
  EXPECT_EQ(total_steps(train), 8);
  EXPECT_EQ(train_length(train), 16);
  EXPECT_EQ(stage_at(train, 2).first_row, 8);
  EXPECT_EQ(stage_at(train, 2).stage.length, 8);
  EXPECT_EQ(stage_at(train, 3).first_row, 12);
  EXPECT_EQ(stage_at(train, 4).first_row, 14);
  EXPECT_EQ(stage_at(train, 4).stage.length, 16);
  EXPECT_EQ(stage_at(train, 4).index, 1);
}

}  // namespace
}  // namespace posenc::config
