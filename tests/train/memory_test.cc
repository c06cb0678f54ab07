// The estimate of experiment/memory.h against the peak of real runs: within a factor of two, and not above
// it, since a run that fits must not be refused.
#include "config/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runs/run_directory.h"
#include "support/sanitizers.h"
#include "train/lab_process.h"

namespace posenc::testing {
namespace {

using config::DataShape;
using config::LabConfig;

struct Case {
  const char* name;
  const char* config;
};

// Each is dominated by another part: parameters, a step's activations, logits, an evaluation.
constexpr Case kCases[] = {
    {"parameters", R"(task: parity
model: {encoding: rope, layers: 4, dim: 768, heads: 8}
train: {length: 8, batch: 2, steps: 2}
eval: {samples: 8, factors: [1]})"},
    {"activations", R"(task: parity
model: {encoding: rope, layers: 3, dim: 64, heads: 4}
train: {length: 128, batch: 256, steps: 2}
eval: {samples: 8, factors: [1]})"},
    {"gated_activations_with_dropout", R"(task: parity
model: {encoding: alibi, layers: 2, dim: 64, heads: 4, mlp: swiglu, dropout: 0.1}
train: {length: 64, batch: 512, steps: 2, optimizer: sgd}
eval: {samples: 8, factors: [1]})"},
    {"logits", R"(task: {language_model: {path: TEXTS}}
model: {encoding: none, layers: 1, dim: 16, heads: 2}
train: {length: 128, batch: 512, steps: 2}
eval: {samples: 8, factors: [1]})"},
    {"evaluation", R"(task: parity
model: {encoding: rope, layers: 2, dim: 64, heads: 4}
train: {length: 64, batch: 2, steps: 2}
eval: {samples: 4096, factors: [1], tokens_per_batch: 131072})"},
};

class MemoryEstimate : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is counted too";
    std::filesystem::create_directory(folder_ / "texts");
    for (int i = 0; i < 10; ++i) {
      folder_.write("texts/" + std::to_string(i), std::string(20'000, static_cast<char>('a' + i)));
    }
    base_ = peak("base", R"(task: parity
model: {encoding: rope, layers: 1, dim: 8, heads: 1}
train: {length: 8, batch: 2, steps: 2}
eval: {samples: 8, factors: [1]})");
  }
  std::string written(std::string config) const {
    if (const auto at = config.find("TEXTS"); at != std::string::npos) {
      config.replace(at, 5, folder_ / "texts");
    }
    return folder_.write("config.yaml", config);
  }
  // Bytes that a process held at its peak.
  double peak(const std::string& name, const std::string& config) const {
    const LabResult result =
        run_lab("train " + written(config) + " --progress quiet --out " + (folder_ / name));
    EXPECT_EQ(result.code, 0) << result.out;
    const auto results = runs::RunDirectory::open(folder_ / name, runs::Access::kRead).results();
    const auto* bytes =
        results ? results->find("peak_memory_bytes")->get_if<std::int64_t>() : nullptr;
    return bytes == nullptr ? 0.0 : static_cast<double>(*bytes);
  }
  double estimate(const std::string& text) const {
    const LabConfig config = config::load_config(written(text)).config;
    const auto task = tasks::make_task(config.task);
    const std::int64_t length = train_length(config.train);
    tasks::Batch batch;
    batch.rows = 1;
    task->fill({.axis = "train", .length = length}, 0, 0, batch);
    const auto unscored = std::count(batch.targets.begin(), batch.targets.end(), tasks::kUnscored);
    const DataShape data{
        .vocabulary = task->info().vocabulary,
        .scored_share = 1.0 - static_cast<double>(unscored) / static_cast<double>(length)};
    return state_bytes(config, data) +
           std::max(step_bytes(config, data, stages(config.train).front()),
                    evaluation_bytes(config, data, length));
  }
  Folder folder_;
  double base_ = 0.0;
};

TEST_F(MemoryEstimate, SlowIsWithinAFactorOfTwoOfRealRuns) {
  for (const Case& c : kCases) {
    const double measured = peak(c.name, c.config) - base_;
    const double estimated = estimate(c.config);
    std::printf("%-32s measured %4.0f MB, estimated %4.0f MB\n", c.name, measured / 1e6,
                estimated / 1e6);
    EXPECT_GT(measured, 100e6) << c.name << ": too small to say anything";
    EXPECT_GT(estimated, 0.5 * measured) << c.name;
    EXPECT_LT(estimated, 1.2 * measured) << c.name;
  }
}

}  // namespace
}  // namespace posenc::testing
