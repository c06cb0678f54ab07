#include "train/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace posenc::train {
namespace {

StepSamples numbered(std::int64_t step) {
  StepSamples samples;
  samples.step = step;
  samples.tokens = 10 * step;
  return samples;
}

TEST(Prefetch, GivesEveryStepInOrder) {
  for (const std::size_t depth : {0U, 1U, 3U}) {
    Prefetch samples(numbered, 5, 200, depth);
    for (std::int64_t step = 5; step < 200; ++step) {
      ASSERT_EQ(samples.next_step(), step);
      const StepSamples made = samples.next();
      ASSERT_EQ(made.step, step) << depth;
      ASSERT_EQ(made.tokens, 10 * step);
    }
  }
}

// So that memory does not grow with the length of a training.
TEST(Prefetch, IsNeverFurtherAheadThanItsDepth) {
  std::atomic<std::int64_t> made = 0;
  Prefetch samples(
      [&](std::int64_t step) {
        ++made;
        return numbered(step);
      },
      0, 1000, 3);
  for (std::int64_t taken = 1; taken <= 100; ++taken) {
    (void)samples.next();
    EXPECT_LE(made, taken + 3);
  }
}

TEST(Prefetch, AFailureComesAfterTheStepsBeforeIt) {
  for (const std::size_t depth : {0U, 2U}) {
    Prefetch samples(
        [](std::int64_t step) {
          if (step == 2) throw std::runtime_error("no such file");
          return numbered(step);
        },
        0, 10, depth);
    EXPECT_EQ(samples.next().step, 0);
    EXPECT_EQ(samples.next().step, 1);
    EXPECT_THROW((void)samples.next(), std::runtime_error) << depth;
  }
}

TEST(Prefetch, PastTheLastStepThereIsNothing) {
  Prefetch samples(numbered, 0, 2, 4);
  (void)samples.next();
  (void)samples.next();
  EXPECT_THROW((void)samples.next(), std::out_of_range);
}

TEST(Prefetch, EndsWhileItIsStillAhead) {
  for (int i = 0; i < 50; ++i) {
    Prefetch samples(numbered, 0, 1'000'000, 2);
    if (i % 2 == 0) (void)samples.next();
  }
}

}  // namespace
}  // namespace posenc::train
