// How many steps are queued before their figures are read, and whether samples are made ahead, changes nothing
// about a training.
#include <gtest/gtest.h>

#include <limits>

#include "core/cancellation.h"
#include "support/temporary_folder.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

constexpr const char* kConfig = R"(task: {selective_counting: {density: 0.3, cap: 4, max_label: 31}}
model: {encoding: rope + cope(npos_max=8), layers: 2, dim: 16, heads: 2, dropout: 0.1}
train:
  stages: [{length: 12, batch: 8, steps: 5}, {length: 20, batch: 4, steps: 7}]
  positions: shift
  position_range: 24
  accumulate: 2
)";

class PaceTest : public ::testing::Test {
 protected:
  [[nodiscard]] Trainer trainer(const Pace& pace) const {
    return Trainer(config_, *task_, {}, pace);
  }
  static void expect_same(Trainer& a, Trainer& b) {
    const auto theirs = b.model()->named_parameters();
    for (const auto& item : a.model()->named_parameters()) {
      EXPECT_TRUE(item.value().equal(theirs[item.key()])) << item.key();
    }
  }

  config::LabConfig config_ = config::parse_config(kConfig, "config").config;
  std::unique_ptr<tasks::Task> task_ = tasks::make_task(config_.task);
};

TEST_F(PaceTest, QueuedStepsGiveTheFiguresAndBitsOfSingleOnes) {
  Trainer single = trainer({.steps = 1, .prefetch = 0});
  Trainer queued = trainer({.steps = 8, .prefetch = 3});
  std::vector<StepReport> reports = queued.run(8);
  for (const StepReport& report : queued.run(4)) reports.push_back(report);
  ASSERT_EQ(reports.size(), 12U);
  for (const StepReport& report : reports) {
    const StepReport expected = single.step();
    EXPECT_EQ(report.loss, expected.loss);
    EXPECT_EQ(report.gradient_norm, expected.gradient_norm);
    EXPECT_EQ(report.scored, expected.scored);
    EXPECT_EQ(report.correct, expected.correct);
    EXPECT_EQ(report.tokens, expected.tokens);
    EXPECT_EQ(report.rate, expected.rate);
    EXPECT_GT(report.seconds, 0.0);
  }
  EXPECT_EQ(queued.steps(), 12);
  expect_same(single, queued);
}

// Against the model itself, on all rows of the step in one go.
TEST_F(PaceTest, AReportIsOfAllPartsOfItsStep) {
  config_.model.dropout = 0.0;
  Trainer single = trainer({.steps = 1, .prefetch = 0});
  config::LabConfig whole = config_;
  whole.train.accumulate = 1;
  const StepSamples all = step_samples(*task_, whole, 0);
  double loss = 0.0;
  std::int64_t correct = 0;
  {
    const at::NoGradGuard quiet;
    const Samples& rows = all.parts.front();
    const at::Tensor logits = single.model()
                                  ->forward(rows.tokens, all.positions)
                                  .flatten(0, 1)
                                  .index_select(0, rows.places);
    loss = at::cross_entropy_loss(logits, rows.targets).item<double>();
    correct = logits.argmax(-1).eq(rows.targets).sum().item<std::int64_t>();
  }
  const StepReport report = single.step();
  EXPECT_NEAR(report.loss, loss, 1e-5 * loss);
  EXPECT_EQ(report.correct, correct);
  EXPECT_EQ(report.scored, all.scored);
  EXPECT_GT(report.gradient_norm, 0.0);
}

TEST_F(PaceTest, AStopBeforeTheFirstStepLeavesNoTrace) {
  Trainer queued = trainer({.steps = 8, .prefetch = 3});
  std::atomic<bool> stop = true;
  EXPECT_THROW((void)queued.run(8, &stop), Interrupted) << "in the first step";
  EXPECT_EQ(queued.steps(), 0);
  stop = false;
  const std::vector<StepReport> reports = queued.run(3, &stop);
  EXPECT_EQ(reports.size(), 3U);
  Trainer single = trainer({.steps = 1, .prefetch = 0});
  for (const StepReport& report : reports) EXPECT_EQ(report.loss, single.step().loss);
  expect_same(single, queued);
}

TEST_F(PaceTest, OnlyAGpuIsWorkedAheadOf) {
  EXPECT_EQ(Pace::of(at::kCPU).steps, 1);
  EXPECT_EQ(Pace::of(at::kCPU).prefetch, 0U);
  EXPECT_GT(Pace::of(at::kCUDA).steps, 1);
  EXPECT_GT(Pace::of(at::kCUDA).prefetch, 0U);
}

TEST_F(PaceTest, ALoadedCheckpointGoesOnWithTheSameBits) {
  const testing::TemporaryFolder folder;
  runs::Checkpoints checkpoints(folder / "checkpoints");
  Trainer whole = trainer({.steps = 8, .prefetch = 2});
  (void)whole.run(7);
  whole.save(&checkpoints, Value(Value::Data(Value::Map{})), {});
  Trainer resumed = trainer({.steps = 1, .prefetch = 0});
  const auto latest = checkpoints.load_latest();
  resumed.load(&*latest);
  for (const StepReport& report : whole.run(5)) EXPECT_EQ(report.loss, resumed.step().loss);
  expect_same(whole, resumed);
}

// NaN in one step shows in the report of that step, and of every later one.
TEST_F(PaceTest, ABadStepShowsInItsOwnReport) {
  Trainer queued = trainer({.steps = 8, .prefetch = 0});
  (void)queued.run(2);
  {
    const at::NoGradGuard quiet;
    queued.model()->parameters().front().fill_(std::numeric_limits<float>::quiet_NaN());
  }
  for (const StepReport& report : queued.run(3)) EXPECT_TRUE(std::isnan(report.loss));
}

}  // namespace
}  // namespace posenc::train
