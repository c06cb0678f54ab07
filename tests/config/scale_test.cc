// posenc plan: the formulas of config/scale.h, worked out by hand for small numbers.
#include "config/scale.h"

#include <gtest/gtest.h>

#include <fstream>

#include "posenc/core/error.h"
#include "support/paths.h"

namespace posenc::config {
namespace {

constexpr const char* kConfig =
    "task: selective_counting\n"
    "model: {layers: 2, dim: 64, heads: 4, tied: true, bias: false, preset: llama, encoding: "
    "none}\n"
    "train: {length: 128, batch: 32, steps: 10, precision: bfloat16, device: cuda}\n";

LabConfig config_with(const std::vector<std::string>& settings = {}) {
  return parse_config(kConfig, "test", settings).config;
}

const DataShape kData{.vocabulary = 100, .scored_share = 1.0};

TEST(ScalePlan, MemoryIsThatOfTheFormula) {
  const LabConfig config = config_with();
  const double p = parameter_count(config.model, 100);
  const ScalePlan plan = plan_scale(config, kData, {.gpus = 8});
  EXPECT_EQ(plan.parameters, p);
  EXPECT_EQ(plan.weights, 4 * p);
  EXPECT_EQ(plan.rounded_weights, 2 * p);
  EXPECT_EQ(plan.gradients, 4 * p);
  EXPECT_EQ(plan.optimizer, 8 * p);
  EXPECT_EQ(plan.sharded_optimizer, p);
  const Stage part{.length = 128, .batch = 4, .steps = 10};
  EXPECT_EQ(plan.activations, step_bytes(config, kData, part));
  EXPECT_LT(plan.checkpointed_activations, plan.activations);
  EXPECT_EQ(plan.variants[0].memory, 18 * p + plan.activations);
  EXPECT_EQ(plan.variants[3].memory, 11 * p + plan.checkpointed_activations);
  EXPECT_EQ(plan_scale(config_with({"train.precision=float32"}), kData, {}).rounded_weights, 0.0);
  EXPECT_EQ(plan_scale(config_with({"train.optimizer=sgd"}), kData, {}).optimizer, 0.0);
}

TEST(ScalePlan, CheckpointsKeepTheInputsOfBlocksAndOneBlock) {
  const auto plan = [](int layers) {
    return plan_scale(config_with({"model.layers=" + std::to_string(layers)}), kData, {.gpus = 8});
  };
  // Two tensors of 64 numbers of two bytes for each of 512 positions.
  const double inputs = 512.0 * 2 * 64 * 2;
  EXPECT_DOUBLE_EQ(plan(7).checkpointed_activations - plan(6).checkpointed_activations, inputs);
  EXPECT_DOUBLE_EQ(plan(1).checkpointed_activations - plan(1).activations, inputs)
      << "one block saves nothing";
  EXPECT_LT(plan(24).checkpointed_activations, 0.5 * plan(24).activations);
}

TEST(ScalePlan, ShowsBothWaysWhicheverTheConfigHas) {
  const ScalePlan off = plan_scale(config_with(), kData, {.gpus = 8});
  const ScalePlan on =
      plan_scale(config_with({"train.checkpoint_blocks=true"}), kData, {.gpus = 8});
  EXPECT_EQ(off.activations, on.activations);
  EXPECT_EQ(off.checkpointed_activations, on.checkpointed_activations);
}

TEST(ScalePlan, TheWireCarriesTheRing) {
  const ScalePlan plan = plan_scale(config_with(), kData, {.gpus = 4});
  EXPECT_DOUBLE_EQ(plan.variants[0].wire, 2.0 * 3 / 4 * plan.gradients);
  EXPECT_DOUBLE_EQ(plan.variants[1].wire, 3.0 * 3 / 4 * plan.gradients) << "and weights";
  const ScalePlan one = plan_scale(config_with(), kData, {.gpus = 1});
  for (const ScaleVariant& v : one.variants) {
    EXPECT_EQ(v.wire, 0.0);
    EXPECT_EQ(v.exposed, 0.0);
    EXPECT_EQ(v.efficiency, 1.0);
  }
}

TEST(ScalePlan, TimeFollowsTheMeasuredSpeed) {
  Cluster cluster{.gpus = 4, .network = 1e9, .network_share = 0.5, .latency = 0.0};
  cluster.tokens_per_second = 1024.0;
  const ScalePlan plan = plan_scale(config_with(), kData, cluster);
  const ScaleVariant& plain = plan.variants[0];
  EXPECT_DOUBLE_EQ(plain.compute, 1.0) << "8 rows of 128 positions";
  EXPECT_DOUBLE_EQ(plain.network, plain.wire / 0.5e9);
  EXPECT_DOUBLE_EQ(plain.exposed, plain.network) << "one bucket: nothing to overlap with";
  EXPECT_DOUBLE_EQ(plan.variants[2].compute, 4.0 / 3.0);
  EXPECT_DOUBLE_EQ(plain.tokens_per_second, 4096.0 / plain.step);
  EXPECT_DOUBLE_EQ(plain.seconds, 10 * plain.step);
}

TEST(ScalePlan, TheBackwardPassHidesTheNetwork) {
  const LabConfig config = config_with({"model.dim=1024", "model.layers=16", "model.heads=8"});
  Cluster cluster{.gpus = 8, .latency = 0.0};
  const auto plain = [&](double tokens_per_second, const LabConfig& c) {
    cluster.tokens_per_second = tokens_per_second;
    return plan_scale(c, kData, cluster).variants[0];
  };
  const ScaleVariant slow = plain(1000.0, config);
  EXPECT_LT(slow.exposed, 0.1 * slow.network) << "the last bucket";
  EXPECT_GT(slow.efficiency, 0.99);
  const ScaleVariant fast = plain(1e9, config);
  EXPECT_NEAR(fast.exposed, fast.network - fast.compute * 2 / 3, 1e-12);
  const LabConfig parts =
      config_with({"model.dim=1024", "model.layers=16", "model.heads=8", "train.accumulate=4"});
  const ScaleVariant accumulated = plain(1e9, parts);
  EXPECT_NEAR(accumulated.exposed, fast.network - fast.compute * 2 / 3 / 4, 1e-12);
}

TEST(ScalePlan, RefusesABatchThatCannotBeDivided) {
  try {
    (void)plan_scale(config_with(), kData, {.gpus = 5});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[plan] --gpus must divide train.batch, which is 32 but got 5; --set "
                 "train.batch=30");
  }
  EXPECT_THROW((void)plan_scale(config_with({"train.accumulate=2"}), kData, {.gpus = 32}), Error);
  const std::string stages =
      "train.stages=[{length: 16, batch: 8, steps: 3}, {length: 8, batch: 4, steps: 7}]";
  try {
    (void)plan_scale(config_with({stages}), kData, {.gpus = 8});
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "[plan] --gpus must divide every stage's batch, which is 4 but got 8; give the "
                 "stage a batch of 8");
  }
}

TEST(ScalePlan, ReadsAmounts) {
  EXPECT_EQ(parse_amount("400Gbit", "--network"), 50e9);
  EXPECT_EQ(parse_amount("1.6Tbit", "--network"), 200e9);
  EXPECT_EQ(parse_amount("50GB", "--network"), 50e9);
  EXPECT_EQ(parse_bytes("141GB", "--memory"), 141e9);
  EXPECT_THROW((void)parse_bytes("400Gbit", "--memory"), Error);
  for (const char* text :
       {"", "400", "Gbit", "-1GB", "0GB", "1e999GB", "4 GB", "4gb", "nan", "nanGB"}) {
    EXPECT_THROW((void)parse_amount(text, "--network"), Error) << text;
    EXPECT_THROW((void)parse_bytes(text, "--memory"), Error) << text;
  }
}

// The default is what docs/lab.md measured: tokens per second times operations per token, over the peak.
TEST(ScalePlan, TheDefaultShareIsTheMeasuredOne) {
  std::ifstream page(std::string(posenc::testing::kTestData) + "/../docs/lab.md");
  const std::string row = "| 8 layers, d 512, T 1,024, batch 32 | rope | ";
  double millions = 0.0;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(row)) millions = std::stod(line.substr(row.size()));
  }
  ASSERT_GT(millions, 0.0) << "docs/lab.md has no such row";
  const double products = 8.0 * 12 * 512 * 512;
  const double per_token = 6 * products + 6.0 * 8 * 512 * 1024;
  EXPECT_NEAR(millions * 1e6 * per_token / 989e12, kMeasuredShare, 0.005);
  Cluster cluster;
  const LabConfig rows =
      parse_config(
          "task: selective_counting\nmodel: {layers: 8, dim: 512, heads: 8, encoding: none}\n"
          "train: {length: 1024, batch: 32}\n",
          "test")
          .config;
  const ScalePlan plan = plan_scale(rows, {.vocabulary = 2, .scored_share = 1.0}, cluster);
  EXPECT_NEAR(plan.variants[0].tokens_per_second, millions * 1e6, 0.02 * millions * 1e6);
}

}  // namespace
}  // namespace posenc::config
