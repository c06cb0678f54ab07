// Steps that a GPU replays from a graph, against steps whose kernels are queued one by one: the same bits, for every
// encoding, and whatever changes from step to step (samples, how many places are scored, rates, dropout, stages).
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "support/temporary_folder.h"
#include "train/trainer.h"

namespace posenc::train {
namespace {

constexpr const char* kConfig = R"(task: {flip_flop: {}}
model: {encoding: none, layers: 2, dim: 64, heads: 2}
train: {length: 64, batch: 8, steps: 40, warmup: 5, device: cuda}
)";

class GraphsOnGpu : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "SKIPPED: no CUDA device";
    if (!ops::DeviceGraph::available()) GTEST_SKIP() << "SKIPPED: this libtorch has no graphs";
    config_ = config::parse_config(kConfig, "config", GetParam()).config;
    task_ = tasks::make_task(config_.task);
  }
  [[nodiscard]] static Pace pace(Graphs graphs) {
    return {.steps = 1000, .prefetch = 4, .graphs = graphs};
  }
  static void expect_same(Trainer& a, Trainer& b) {
    const auto theirs = b.model()->named_parameters();
    for (const auto& item : a.model()->named_parameters()) {
      EXPECT_TRUE(item.value().equal(theirs[item.key()])) << item.key();
    }
  }

  config::LabConfig config_;
  std::unique_ptr<tasks::Task> task_;
};

TEST_P(GraphsOnGpu, GiveTheBitsOfStepsWithoutThem) {
  Trainer plain(config_, *task_, {}, pace(Graphs::kNever));
  Trainer recorded(config_, *task_, {}, pace(Graphs::kWherePossible));
  const std::vector<StepReport> expected = plain.run(30);
  std::vector<StepReport> reports = recorded.run(11);
  for (const StepReport& report : recorded.run(19)) reports.push_back(report);
  ASSERT_EQ(reports.size(), expected.size());
  EXPECT_TRUE(recorded.replays());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(reports[i].loss, expected[i].loss) << "step " << i;
    EXPECT_EQ(reports[i].correct, expected[i].correct) << "step " << i;
    EXPECT_EQ(reports[i].gradient_norm, expected[i].gradient_norm) << "step " << i;
    EXPECT_EQ(reports[i].rate, expected[i].rate) << "step " << i;
  }
  EXPECT_LT(reports.back().loss, reports.front().loss);
  expect_same(plain, recorded);
}

TEST_P(GraphsOnGpu, GoOnFromACheckpointWithTheSameBits) {
  const testing::TemporaryFolder folder;
  runs::Checkpoints checkpoints(folder / "checkpoints");
  std::vector<StepReport> expected;
  {
    Trainer whole(config_, *task_, {}, pace(Graphs::kWherePossible));
    (void)whole.run(13);
    whole.save(&checkpoints, Value(Value::Data(Value::Map{})), {});
    expected = whole.run(17);
  }
  Trainer resumed(config_, *task_, {}, pace(Graphs::kWherePossible));
  const auto latest = checkpoints.load_latest();
  resumed.load(&*latest);
  const std::vector<StepReport> reports = resumed.run(17);
  ASSERT_EQ(reports.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(reports[i].loss, expected[i].loss) << "step " << i;
    EXPECT_EQ(reports[i].gradient_norm, expected[i].gradient_norm) << "step " << i;
  }
}

std::vector<std::vector<std::string>> settings() {
  std::vector<std::vector<std::string>> all;
  for (const char* encoding :
       {"none", "learned(max_positions=64)", "sinusoidal", "rope", "rope(schedule=learnable)",
        "xpos", "alibi", "alibi(trainable=true)", "t5", "kerple", "fire", "relative",
        "cope(npos_max=16)", "rope + cope(npos_max=16)", "learned(max_positions=64) + kerple"}) {
    all.push_back({std::string("model.encoding=") + encoding});
  }
  for (const char* precision : {"tf32", "bfloat16"}) {
    for (const char* encoding : {"rope", "cope(npos_max=16)", "fire"}) {
      all.push_back(
          {std::string("model.encoding=") + encoding, std::string("train.precision=") + precision});
    }
  }
  all.push_back({"train.batch=128"});  // sums over so many tokens have an order of their own
  all.push_back({"model.dropout=0.1", "model.mlp_dropout=0.2", "train.accumulate=2"});
  all.push_back({"model.score_scaling=log", "model.qk_norm=true", "train.optimizer=adam"});
  all.push_back({"model.attention=linear", "model.encoding=rope", "train.encoding_lr=0.5"});
  all.push_back(
      {"train.stages=[{length: 32, batch: 8, steps: 12}, {length: 64, batch: 4, steps: 28}]"});
  return all;
}

std::string name_of(const ::testing::TestParamInfo<std::vector<std::string>>& info) {
  std::string name;
  for (const std::string& setting : info.param) {
    for (const char c : setting) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Settings, GraphsOnGpu, ::testing::ValuesIn(settings()), name_of);

}  // namespace
}  // namespace posenc::train
