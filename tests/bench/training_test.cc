// Rows of posenc bench train: which batches, what is compared, and what does not fit.
#include "bench/training.h"

#include <gtest/gtest.h>

#include "posenc/core/error.h"

namespace posenc::bench {
namespace {

constexpr TrainingShape kTiny{.length = 32, .dim = 16, .layers = 1, .heads = 2, .batch = 2};
constexpr Effort kOnce{.seconds = 0.0, .least = 1};

TEST(TrainingShapes, KeepTheTokensOfAStep) {
  std::vector<std::int64_t> batches;
  for (const TrainingShape& shape : shapes_for(kTiny, {512, 1024, 3000, 8192}, 4096)) {
    EXPECT_EQ(shape.dim, kTiny.dim);
    batches.push_back(shape.batch);
  }
  EXPECT_EQ(batches, (std::vector<std::int64_t>{8, 4, 1, 1})) << "one sample at the least";
}

TEST(TrainingRows, CompareTheLossesBeforeAnythingElse) {
  const TrainingRow row = measure_training("rope + cope(npos_max=64)", kTiny, {}, kOnce);
  ASSERT_TRUE(row.ours && row.composed);
  EXPECT_EQ(row.ours->losses.size(), 3U);
  ASSERT_TRUE(row.loss_difference());
  EXPECT_LT(*row.loss_difference(), 1e-4);
  EXPECT_TRUE(row.checked());
  TrainingRow other = row;
  other.composed->losses.back() *= 1.01;
  EXPECT_NEAR(*other.loss_difference(), 0.01, 2e-3);
  EXPECT_FALSE(other.checked());
  other.tolerance = 0.02;  // of bfloat16
  EXPECT_TRUE(other.checked());
}

TEST(TrainingRows, HaveNoBaselineWithoutAComposition) {
  const TrainingRow row = measure_training("xpos", kTiny, {}, kOnce);
  EXPECT_TRUE(row.ours);
  EXPECT_FALSE(row.composed);
  EXPECT_FALSE(row.speedup());
  EXPECT_TRUE(row.checked()) << "nothing differs";
}

TEST(TrainingRows, LeaveOutWhatDoesNotFit) {
  const double scores = composed_score_bytes("alibi", kTiny);
  const auto with = [](double bytes) {
    return measure_training("alibi", kTiny, {.memory_bytes = bytes}, kOnce);
  };
  const TrainingRow plenty = with(1e12);
  EXPECT_TRUE(plenty.ours && plenty.composed);
  const TrainingRow none = with(1.0);
  EXPECT_FALSE(none.ours);
  EXPECT_FALSE(none.composed);
  // Enough for the model, and not for the matrices of scores as well.
  double enough = 1.0;
  while (!with(enough).ours) enough *= 1.1;
  ASSERT_GT(scores, 0.1 * enough) << "else there is no such step";
  EXPECT_FALSE(with(enough).composed);
}

TEST(TrainingRows, OfComposedAttentionGrowWithTheSquareOfTheLength) {
  TrainingShape longer = kTiny;
  longer.length *= 4;
  EXPECT_DOUBLE_EQ(composed_score_bytes("rope", longer), 16 * composed_score_bytes("rope", kTiny));
  EXPECT_GT(composed_score_bytes("cope(npos_max=64)", kTiny),
            2 * composed_score_bytes("rope", kTiny));
  EXPECT_GT(composed_score_bytes("fire", kTiny), composed_score_bytes("alibi", kTiny));
}

TEST(TrainingRows, NeedAShapeThatIsAModel) {
  TrainingShape odd = kTiny;
  odd.heads = 3;
  EXPECT_THROW((void)measure_training("none", odd, {}, kOnce), Error);
}

TEST(TrainingRows, OnGpuHavePeaksOfTheAllocator) {
  if (!cuda_found()) GTEST_SKIP() << "no CUDA device";
  const TrainingPlace gpu{.device = config::Device::kCuda};
  const TrainingRow row = measure_training("rope", kTiny, gpu, kOnce);
  ASSERT_TRUE(row.ours && row.composed);
  EXPECT_TRUE(row.checked()) << *row.loss_difference();
  EXPECT_GT(row.ours->peak_bytes.value_or(0), 0);
}

}  // namespace
}  // namespace posenc::bench
