// Ranks on GPUs, which exchange through NCCL.
#include <torch/cuda.h>

#include "parallel/group.h"
#include "train/several_processes.h"

namespace posenc::testing {
namespace {

class ParallelOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "SKIPPED: no CUDA device";
    if (parallel::backends().find("nccl") == std::string::npos) {
      GTEST_SKIP() << "SKIPPED: this build has no NCCL";
    }
  }
  [[nodiscard]] std::string words(const std::string& out, const std::string& more = "") const {
    return "train " + config_ + " --set train.device=cuda --progress quiet --out " +
           (folder_ / out) + " " + more;
  }
  [[nodiscard]] std::string train(const std::string& out, const std::string& more = "") const {
    const LabResult result = run_lab(words(out, more));
    EXPECT_EQ(result.code, 0) << result.out;
    return folder_ / out;
  }
  void expect_same_run(const std::string& run, const std::string& other) const {
    const std::vector<double> losses = metric_column(run, "loss");
    const std::vector<double> others = metric_column(other, "loss");
    ASSERT_FALSE(losses.empty());
    ASSERT_EQ(losses.size(), others.size());
    for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], others[i], 1e-4) << i;
    EXPECT_EQ(metric_column(run, "tokens"), metric_column(other, "tokens"));
  }

  Folder folder_;
  std::string config_ = folder_.write("config.yaml", kSharedConfig);
};

TEST_F(ParallelOnGpu, OneRankTrainsTheRunOfOneProcess) {
  const std::string alone = train("alone");
  const std::string out = HandStartedRanks(free_port()).run({words("rank")});
  ASSERT_NE(out.find("rank 0 ended with 0"), std::string::npos) << out;
  expect_same_run(alone, folder_ / "rank");
}

TEST_F(ParallelOnGpu, AShardedOptimizerAndCheckpointsWorkThroughNccl) {
  const std::string alone = train("alone");
  const std::string one =
      words("rank", "--set train.shard_optimizer=true --set train.checkpoint_blocks=true");
  const std::string out = HandStartedRanks(free_port()).run({one});
  ASSERT_NE(out.find("rank 0 ended with 0"), std::string::npos) << out;
  expect_same_run(alone, folder_ / "rank");
}

// NCCL decides whether two ranks may share a GPU. Where it refuses, the job ends with one line that names the rank.
TEST_F(ParallelOnGpu, TwoRanksOnOneGpuTrainTheRunOrEndWithOneLine) {
  const LabResult result = run_lab(words("two", "--procs 2"));
  if (result.code == 0) {
    expect_same_run(train("alone"), folder_ / "two");
    return;
  }
  EXPECT_EQ(lines_of(result.out).size(), 1U) << result.out;
  EXPECT_NE(result.out.find("NCCL"), std::string::npos) << result.out;
  // NCCL may refuse before there is a run.
  if (!std::filesystem::exists(folder_ / "two")) return;
  EXPECT_NE(status_of(folder_ / "two").find("\"failed\""), std::string::npos)
      << status_of(folder_ / "two");
}

}  // namespace
}  // namespace posenc::testing
