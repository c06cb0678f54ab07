// The fields that a config which does not fit is told to change. What the figures are worth is in
// tests/train/memory_test.cc.
#include "config/memory.h"

#include <gtest/gtest.h>

namespace posenc::config {
namespace {

const DataShape kData{.vocabulary = 10, .scored_share = 0.5};

std::string refusal(const std::vector<std::string>& settings, double available,
                    const std::vector<std::int64_t>& lengths = {}, Work work = Work::kTraining) {
  const LabConfig config = parse_config("task: parity\n", "config", settings).config;
  try {
    require_memory(config, kData, lengths, available, work);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    return error.what();
  }
  return "";
}

void expect_key(const std::string& text, const std::string& key) {
  EXPECT_EQ(text.rfind("[memory] " + key + " is too large for this machine: ", 0), 0U) << text;
  EXPECT_NE(text.find(" are available"), std::string::npos) << text;
}

TEST(Memory, NamesTheFieldToChange) {
  EXPECT_EQ(refusal({}, 1e9, {64, 512}), "");
  expect_key(refusal({"model.dim=65536", "model.layers=1024"}, 64e9), "model.dim");
  expect_key(refusal({"model.encoding=learned(max_positions=1000000000)"}, 64e9), "model.encoding");
  expect_key(refusal({"train.batch=1000000", "train.length=1000"}, 64e9), "train.batch");
  expect_key(refusal({"train.batch=1", "train.length=10000000"}, 8e9), "train.length");
  expect_key(refusal({"train.stages=[{length: 8, batch: 8, steps: 1}, {length: 9999, batch: 99999, "
                      "steps: 1}]"},
                     64e9),
             "train.stages.batch");
  expect_key(refusal({}, 8e9, {64, 64000000}), "eval.factors");
  expect_key(refusal({"eval.lengths=[64000000]"}, 8e9, {64000000}), "eval.lengths");
  expect_key(refusal({"eval.tokens_per_batch=1000000000", "eval.samples=100000000"}, 8e9, {64}),
             "eval.tokens_per_batch");
}

TEST(Memory, AnEvaluationNeedsNoOptimizer) {
  const std::vector<std::string> settings = {"model.dim=1024", "model.layers=8",
                                             "eval.tokens_per_batch=64"};
  const double weights =
      4 * parameter_count(parse_config("task: parity", "c", settings).config.model, 10);
  EXPECT_NE(refusal(settings, 2 * weights), "");
  EXPECT_EQ(refusal(settings, 2 * weights, {64}, Work::kEvaluation), "");
}

TEST(Memory, AShardedOptimizerIsDividedAmongProcesses) {
  const std::vector<std::string> settings = {"model.dim=1024", "model.layers=8", "train.batch=1"};
  LabConfig config = parse_config("task: parity\n", "config", settings).config;
  const double vector = 4 * parameter_count(config.model, kData.vocabulary);
  EXPECT_DOUBLE_EQ(state_bytes(config, kData, 4), 6 * vector);
  config.train.shard_optimizer = true;
  EXPECT_DOUBLE_EQ(state_bytes(config, kData), 6 * vector);
  EXPECT_DOUBLE_EQ(state_bytes(config, kData, 4), 3.75 * vector);
  const double available = 5 * vector;
  EXPECT_THROW(require_memory(config, kData, {}, available, Work::kTraining), Error);
  EXPECT_NO_THROW(require_memory(config, kData, {}, available, Work::kTraining, 4));
}

TEST(Memory, AccumulationMakesAStepSmaller) {
  LabConfig config = parse_config("task: parity\n", "config").config;
  const Stage stage = stages(config.train).front();
  const double whole = step_bytes(config, kData, stage);
  config.train.accumulate = 8;
  EXPECT_LT(step_bytes(config, kData, stage), 0.2 * whole);
}

TEST(Memory, CountsOverflowNothing) {
  const std::string text =
      refusal({"model.dim=65536", "model.layers=1024", "model.mlp_ratio=64"}, 1);
  EXPECT_NE(text.find(" PB, and "), std::string::npos) << text;
}

}  // namespace
}  // namespace posenc::config
