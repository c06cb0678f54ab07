// Weights of an older checkpoint than the last are never taken without a word.
#include <gtest/gtest.h>

#include "config/load.h"
#include "pretrained/export.h"
#include "pretrained/hf_tensors.h"
#include "pretrained/weight_source.h"
#include "runs/checkpoints.h"
#include "runs/run_directory.h"
#include "support/temporary_folder.h"

namespace posenc::pretrained {
namespace {

constexpr std::int64_t kVocabulary = 16;
constexpr const char* kConfig =
    "model: {preset: llama, layers: 1, dim: 8, heads: 2, kv_heads: 2, encoding: rope}\n"
    "task: {parity: {}}\n";

// A run with checkpoints of steps 1 and 2, the second of them damaged.
class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() {
    (void)runs::RunDirectory::create(
        run(),
        {.config = kConfig, .config_hash = "a1", .environment = Value(Value::Data(Value::Map{}))});
    runs::Checkpoints checkpoints(run() + "/checkpoints");
    const std::vector<float> zeros(4096);
    runs::TensorGroup group{"model", {}};
    for (const TensorRule& rule : hf_tensors(hf_names(model()), model(), kVocabulary)) {
      const auto bytes = *weights::byte_length(weights::ElementType::kF32, rule.lab_shape);
      group.tensors.push_back({rule.lab, weights::ElementType::kF32, rule.lab_shape,
                               std::as_bytes(std::span(zeros)).first(bytes)});
    }
    for (const std::int64_t step : {1, 2}) {
      checkpoints.save(step, std::span(&group, 1), Value(Value::Data(Value::Map{})), 0.5);
    }
    std::filesystem::resize_file(run() + "/checkpoints/step-00000002/model.safetensors", 9);
  }
  [[nodiscard]] std::string run() const { return folder_ / "run"; }
  [[nodiscard]] static config::ModelConfig model() {
    return config::parse_config(kConfig, "config.yaml").config.model;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(DamagedCheckpoint, ExportNamesIt) {
  for (const bool best : {false, true}) {
    const Exported done = export_hf(run(), folder_ / "out", {.best = best, .replace = true});
    EXPECT_EQ(done.step, 1);
    ASSERT_EQ(done.messages.size(), 1U);
    EXPECT_TRUE(done.messages[0].starts_with("checkpoint of step 2 is skipped: [" + run()))
        << done.messages[0];
  }
}

TEST_F(DamagedCheckpoint, AModelThatStartsFromItNamesIt) {
  const WeightSource source(config::read_init_source(run()), model(), kVocabulary);
  EXPECT_TRUE(
      source.kind().starts_with("run at step 1; checkpoint of step 2 is skipped: [" + run()))
      << source.kind();
}

}  // namespace
}  // namespace posenc::pretrained
