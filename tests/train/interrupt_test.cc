// A step is interrupted in the middle, forward and backward, and leaves no trace: the next one gives the
// same bits. Before, a step ran to its end whatever its length.
#include <gtest/gtest.h>

#include <thread>

#include "core/cancellation.h"
#include "runs/run_directory.h"
#include "train/evaluate.h"
#include "train/lab_process.h"
#include "train/trainer.h"

namespace posenc::testing {
namespace {

using train::Trainer;

constexpr const char* kConfig = R"(task: parity
model: {encoding: rope + cope(npos_max=8), layers: 3, dim: 16, heads: 2, dropout: 0.1}
train: {length: 12, batch: 4, steps: 3, accumulate: 2}
)";

// Raises the flag in the chosen call of a layer, or in the backward pass of it.
struct Trap {
  std::atomic<bool> flag = false;
  int calls = 0;
  int trapped = -1;  // number of the call, from 1
  bool backward = false;

  void pass(const at::Tensor& out) {
    if (++calls != trapped) return;
    if (!backward) flag = true;
    if (backward) out.register_hook([this](const at::Tensor&) { flag = true; });
  }
};

class TrappedAttention : public nn::AttentionImpl {
 public:
  TrappedAttention(nn::AttentionConfig config, nn::EncodingParameters shared, Trap& trap)
      : nn::AttentionImpl(std::move(config), std::move(shared)), trap_(trap) {}

 protected:
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const ops::AttentionOptions& options) override {
    at::Tensor out = nn::AttentionImpl::attend(q, k, v, options);
    trap_.pass(out);
    return out;
  }

 private:
  Trap& trap_;
};

model::AttentionFactory trapped(Trap& trap) {
  return [&trap](nn::AttentionConfig config, nn::EncodingParameters shared) {
    return std::make_shared<TrappedAttention>(std::move(config), std::move(shared), trap);
  };
}

class Interrupt : public ::testing::Test {
 protected:
  config::LabConfig config_ = config::parse_config(kConfig, "config").config;
  std::unique_ptr<tasks::Task> task_ = tasks::make_task(config_.task);

  static void expect_same(Trainer& a, Trainer& b) {
    const auto theirs = b.model()->named_parameters();
    for (const auto& item : a.model()->named_parameters()) {
      EXPECT_TRUE(item.value().equal(theirs[item.key()])) << item.key();
    }
  }
};

TEST_F(Interrupt, AStepThatIsCutOffLeavesNoTrace) {
  for (const bool backward : {false, true}) {
    for (const int call : {1, 3, 5}) {  // layers 0 and 2 of the first part, layer 1 of the second
      Trap none;
      Trap trap{.flag = false, .calls = 0, .trapped = call, .backward = backward};
      Trainer whole(config_, *task_, trapped(none));
      Trainer cut(config_, *task_, trapped(trap));
      EXPECT_THROW(cut.step(&trap.flag), Interrupted) << call;
      EXPECT_EQ(cut.steps(), 0);
      expect_same(whole, cut);
      trap.flag = false;
      for (int step = 0; step < 3; ++step) {
        EXPECT_EQ(whole.step().loss, cut.step(&trap.flag).loss);
      }
      expect_same(whole, cut);
    }
  }
}

// Six calls of a layer make a step: three layers, two parts.
TEST_F(Interrupt, AStepQueuedAfterOthersIsCutOffAndTheyAreKept) {
  Trap none;
  Trap trap{.flag = false, .calls = 0, .trapped = 14, .backward = false};
  config_.train.steps = 8;
  Trainer whole(config_, *task_, trapped(none));
  Trainer cut(config_, *task_, trapped(trap), train::Pace{.steps = 8, .prefetch = 2});
  const std::vector<train::StepReport> kept = cut.run(8, &trap.flag);
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_EQ(cut.steps(), 2);
  trap.flag = false;
  for (const train::StepReport& report : kept) EXPECT_EQ(report.loss, whole.step().loss);
  for (const train::StepReport& report : cut.run(3)) EXPECT_EQ(report.loss, whole.step().loss);
  expect_same(whole, cut);
}

TEST_F(Interrupt, AnEvaluationEndsBetweenLayers) {
  Trap trap{.flag = false, .calls = 0, .trapped = 2, .backward = false};
  Trainer trainer(config_, *task_, trapped(trap));
  train::EvalSetting setting;
  setting.config = config_.eval;
  setting.train_length = train_length(config_.train);
  setting.stop = &trap.flag;
  EXPECT_FALSE(evaluate_row(trainer.model(), *task_, {"train", 12}, setting));
  EXPECT_EQ(trap.calls, 2) << "the third layer was not computed";
  EXPECT_TRUE(trainer.model()->is_training()) << "as it was";
}

bool ends(LabProcess& process, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (process.running()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// One row of a million tokens: its attention alone takes many minutes.
TEST_F(Interrupt, ASignalEndsAStepOfAMillionTokens) {
  const Folder folder;
  const std::string config = folder.write("config.yaml", R"(task: parity
model: {encoding: none, layers: 1, dim: 4, heads: 1, mlp_ratio: 1}
train: {length: 1000000, batch: 1, steps: 1}
)");
  const std::string run = folder / "run";
  LabProcess process({"train", config, "--out", run, "--no-eval"});
  for (int look = 0; look < 3000 && !runs::RunDirectory::exists(run); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(runs::RunDirectory::exists(run));
  std::this_thread::sleep_for(std::chrono::seconds(2));  // into the step
  ASSERT_TRUE(process.running());
  process.send(SIGTERM);
  ASSERT_TRUE(ends(process, std::chrono::seconds(60)));
  EXPECT_EQ(process.wait(), 128 + SIGTERM);
  const auto status = runs::RunDirectory::open(run, runs::Access::kRead).status();
  EXPECT_EQ(status.state, runs::RunState::kStopped);
  EXPECT_EQ(status.step, 0);
}

// A batch script of Slurm that trains without srun: a job that has saved must not count as failed.
TEST_F(Interrupt, AJobOfSlurmThatHasSavedEndsWithZero) {
  const Folder folder;
  const std::string config = folder.write("config.yaml", R"(task: parity
model: {encoding: none, layers: 1, dim: 4, heads: 1, mlp_ratio: 1}
train: {length: 8, batch: 2, steps: 100000000, checkpoint_every: 10}
)");
  const std::string run = folder / "run";
  ::setenv("SLURM_JOB_ID", "7", 1);
  LabProcess process({"train", config, "--out", run, "--no-eval"});
  ::unsetenv("SLURM_JOB_ID");
  for (int look = 0; look < 3000 && !runs::RunDirectory::exists(run); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(runs::RunDirectory::exists(run));
  process.send(SIGTERM);
  ASSERT_TRUE(ends(process, std::chrono::seconds(60)));
  EXPECT_EQ(process.wait(), 0);
  EXPECT_EQ(runs::RunDirectory::open(run, runs::Access::kRead).status().state,
            runs::RunState::kStopped);
}

}  // namespace
}  // namespace posenc::testing
