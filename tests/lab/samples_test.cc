#include "lab/samples.h"

#include <gtest/gtest.h>

#include <map>

namespace posenc::lab {
namespace {

using experiment::PositionPolicy;
using experiment::TrainConfig;

TrainConfig with(PositionPolicy policy, std::int64_t range) {
  TrainConfig train;
  train.positions = policy;
  train.position_range = range;
  return train;
}

TEST(Samples, PicksOutTheScoredPlaces) {
  tasks::Batch batch;
  batch.rows = 2;
  batch.length = 3;
  batch.tokens = {1, 2, 3, 4, 5, 6};
  batch.targets = {-1, 7, -1, -1, -1, 8};
  const Samples all = to_samples(batch, 0, 2, at::kCPU);
  EXPECT_TRUE(all.tokens.equal(at::tensor({1, 2, 3, 4, 5, 6}, at::kLong).reshape({2, 3})));
  EXPECT_TRUE(all.places.equal(at::tensor({1, 5}, at::kLong)));
  EXPECT_TRUE(all.targets.equal(at::tensor({7, 8}, at::kLong)));
  const Samples second = to_samples(batch, 1, 1, at::kCPU);
  EXPECT_TRUE(second.places.equal(at::tensor({2}, at::kLong)));
  EXPECT_TRUE(second.targets.equal(at::tensor({8}, at::kLong)));
}

TEST(TrainingPositions, FollowThePolicy) {
  EXPECT_FALSE(training_positions(with(PositionPolicy::kAsIs, 0), 8, 1, 0).defined());
  const at::Tensor shifted = training_positions(with(PositionPolicy::kShift, 100), 8, 1, 5);
  EXPECT_TRUE((shifted - shifted[0]).equal(at::arange(8)));
  EXPECT_LE(shifted[7].item<std::int64_t>(), 99);
  const at::Tensor subset = training_positions(with(PositionPolicy::kSubset, 20), 8, 1, 5);
  EXPECT_TRUE((subset.slice(0, 1) > subset.slice(0, 0, 7)).all().item<bool>());
  EXPECT_GE(subset[0].item<std::int64_t>(), 0);
  EXPECT_LE(subset[7].item<std::int64_t>(), 19);
  // The whole range is the only subset of its size.
  EXPECT_TRUE(training_positions(with(PositionPolicy::kSubset, 8), 8, 1, 5).equal(at::arange(8)));
}

TEST(TrainingPositions, AreAFunctionOfSeedAndStep) {
  const TrainConfig train = with(PositionPolicy::kSubset, 1000);
  EXPECT_TRUE(training_positions(train, 8, 1, 5).equal(training_positions(train, 8, 1, 5)));
  EXPECT_FALSE(training_positions(train, 8, 1, 5).equal(training_positions(train, 8, 1, 6)));
  EXPECT_FALSE(training_positions(train, 8, 1, 5).equal(training_positions(train, 8, 2, 5)));
}

// Every place is as likely as any other: 4 of 10, over 2000 steps, within five deviations.
TEST(TrainingPositions, SubsetsAreUniform) {
  const TrainConfig train = with(PositionPolicy::kSubset, 10);
  std::map<std::int64_t, int> counts;
  for (std::int64_t step = 0; step < 2000; ++step) {
    const at::Tensor subset = training_positions(train, 4, 9, step);
    for (std::int64_t i = 0; i < 4; ++i) ++counts[subset[i].item<std::int64_t>()];
  }
  for (std::int64_t place = 0; place < 10; ++place) EXPECT_NEAR(counts[place], 800, 110) << place;
}

}  // namespace
}  // namespace posenc::lab
