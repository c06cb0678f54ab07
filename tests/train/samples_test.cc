#include "train/samples.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace posenc::train {
namespace {

using config::PositionPolicy;
using config::TrainConfig;

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

TEST(Shuffled, IsAPermutationThatFollowsItsKey) {
  for (const std::uint64_t size : {1U, 2U, 5U, 64U, 1000U}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(shuffled(i, size, 7));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    same += shuffled(i, 1000, 7) == shuffled(i, 1000, 8) ? 1 : 0;
  }
  EXPECT_LT(same, 10) << "about one of a thousand by chance";
}

std::multiset<std::vector<std::int32_t>> rows_of(const tasks::Batch& batch) {
  std::multiset<std::vector<std::int32_t>> rows;
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    const auto first = batch.tokens.begin() + r * batch.length;
    rows.emplace(first, first + batch.length);
  }
  return rows;
}

TEST(TrainingRows, AFixedSetIsSeenOncePerEpochInAnotherOrder) {
  config::LabConfig config;
  config.task = tasks::FlipFlop{};
  config.train.dataset = 12;
  config.train.length = 16;
  const auto task = tasks::make_task(config.task);
  const auto drawn = [&](std::int64_t first, std::int64_t rows) {
    tasks::Batch batch;
    batch.rows = rows;
    fill_training_rows(*task, config, {{16, rows, 1}, 0, first}, batch);
    return batch;
  };
  const tasks::Batch first = drawn(0, 12);
  const tasks::Batch second = drawn(12, 12);
  EXPECT_EQ(rows_of(first), rows_of(second));
  EXPECT_NE(first.tokens, second.tokens);
  EXPECT_EQ(first.targets.size(), first.tokens.size());
  tasks::Batch fresh;
  fresh.rows = 12;
  config.train.dataset = 0;
  fill_training_rows(*task, config, {{16, 12, 1}, 0, 12}, fresh);
  EXPECT_NE(rows_of(fresh), rows_of(second));
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

TEST(StepSamples, PartsOfAStepAreItsRowsInOrder) {
  config::LabConfig config;
  config.task = tasks::FlipFlop{};
  config.train.length = 8;
  config.train.batch = 6;
  const auto task = tasks::make_task(config.task);
  const StepSamples whole = step_samples(*task, config, 3);
  config.train.accumulate = 3;
  const StepSamples split = step_samples(*task, config, 3);
  ASSERT_EQ(split.parts.size(), 3U);
  EXPECT_EQ(split.tokens, 48);
  EXPECT_EQ(split.scored, whole.scored);
  EXPECT_EQ(whole.scored, whole.parts.front().scored());
  EXPECT_TRUE(whole.parts.front().tokens.equal(
      at::cat({split.parts[0].tokens, split.parts[1].tokens, split.parts[2].tokens})));
  EXPECT_TRUE(whole.parts.front().targets.equal(
      at::cat({split.parts[0].targets, split.parts[1].targets, split.parts[2].targets})));
  EXPECT_FALSE(step_samples(*task, config, 4).parts[0].tokens.equal(split.parts[0].tokens))
      << "a step has rows of its own";
}

// Two parts of three rows of 32 tokens.
struct TwoParts {
  config::LabConfig config = config::parse_config(
                                 "task: {flip_flop: {}}\nmodel: {encoding: none}\n"
                                 "train: {length: 32, batch: 6, steps: 3, accumulate: 2}\n",
                                 "config")
                                 .config;
  std::unique_ptr<tasks::Task> task = tasks::make_task(config.task);

  [[nodiscard]] StepSamples step(const StepLayout& layout = {}) const {
    return step_samples(*task, config, 1, layout);
  }
};

// Processes that compute pieces of a step compute its rows, each of them once.
TEST(StepSamples, PiecesAreTheRowsOfTheWhole) {
  const TwoParts made;
  const StepSamples whole = made.step();
  std::int64_t scored = 0;
  for (std::int64_t piece = 0; piece < 3; ++piece) {
    const StepSamples here =
        step_samples(*made.task, made.config, 1, {}, Pieces{.first = piece, .count = 1, .all = 3});
    ASSERT_EQ(here.parts.size(), 2U);
    for (std::size_t part = 0; part < 2; ++part) {
      EXPECT_TRUE(here.parts[part].tokens.equal(whole.parts[part].tokens.narrow(0, piece, 1)));
      EXPECT_EQ(here.rows[part].first, piece);
      EXPECT_EQ(here.rows[part].of, 3);
    }
    EXPECT_EQ(here.tokens, whole.tokens);
    EXPECT_EQ(here.divisor_here().item<float>(), 6.0F * 32.0F);
    scored += here.scored;
  }
  EXPECT_EQ(scored, whole.scored);
  const StepSamples two =
      step_samples(*made.task, made.config, 1, {}, Pieces{.first = 1, .count = 2, .all = 3});
  ASSERT_EQ(two.parts.size(), 4U);  // both parts of one piece, then of the other
  EXPECT_TRUE(two.parts[3].tokens.equal(whole.parts[1].tokens.narrow(0, 2, 1)));
}

// What fills a step up is no target, lies in the batch and comes after what is scored.
TEST(StepSamples, PaddingKeepsWhatIsScored) {
  const TwoParts made;
  const StepSamples plain = made.step();
  const StepSamples padded = made.step({.padded = true});
  EXPECT_EQ(padded.scored, plain.scored);
  EXPECT_EQ(padded.rate_here().item<double>(), plain.rate);
  EXPECT_EQ(padded.divisor_here().item<float>(), static_cast<float>(plain.scored));
  for (std::size_t i = 0; i < plain.parts.size(); ++i) {
    const Samples& a = plain.parts[i];
    const Samples& b = padded.parts[i];
    const std::int64_t more = b.scored() - a.scored();
    EXPECT_TRUE(b.tokens.equal(a.tokens));
    EXPECT_EQ(b.scored(), padded_places(a.scored(), 3 * 32));
    EXPECT_TRUE(b.places.narrow(0, 0, a.scored()).equal(a.places));
    EXPECT_TRUE(b.targets.narrow(0, 0, a.scored()).equal(a.targets));
    EXPECT_TRUE(b.targets.narrow(0, a.scored(), more).eq(kIgnored).all().item<bool>());
    EXPECT_TRUE(b.places.ge(0).logical_and(b.places.lt(3 * 32)).all().item<bool>());
  }
}

TEST(StepSamples, HaveFewShapes) {
  EXPECT_EQ(padded_places(0, 96), 12);
  EXPECT_EQ(padded_places(1, 96), 12);
  EXPECT_EQ(padded_places(12, 96), 12);
  EXPECT_EQ(padded_places(13, 96), 24);
  EXPECT_EQ(padded_places(96, 96), 96);
  EXPECT_EQ(padded_places(97, 100), 100) << "never more than there are";
  EXPECT_EQ(padded_places(3, 5), 3);
}

// One tensor elsewhere is enough to have them all there.
TEST(StepSamples, AreViewsOfOneTensor) {
  const StepSamples here = TwoParts().step();
  const StepSamples there = here.in(here.all.clone());
  EXPECT_NE(there.parts[0].tokens.data_ptr(), here.parts[0].tokens.data_ptr());
  EXPECT_TRUE(there.parts[0].tokens.equal(here.parts[0].tokens));
  EXPECT_TRUE(there.parts[0].places.equal(here.parts[0].places));
  EXPECT_TRUE(there.parts[0].targets.equal(here.parts[0].targets));
  there.all.zero_();
  EXPECT_EQ(there.parts[0].targets.sum().item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace posenc::train
