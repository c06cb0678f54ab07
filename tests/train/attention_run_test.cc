// posenc-lab attention, and what training keeps without being asked.
#include "train/attention_run.h"

#include <gtest/gtest.h>

#include <regex>

#include "runs/run_directory.h"
#include "train/lab_process.h"

namespace posenc::train {
namespace {

namespace fs = std::filesystem;
using testing::LabResult;
using testing::run_lab;

constexpr const char* kConfig = R"(task: selective_counting
model: {encoding: ENCODING, layers: 2, dim: 16, heads: 4, kv_heads: 2}
train: {length: 12, batch: 4, steps: 6, eval_every: 3, eval_samples: 8}
eval: {samples: 8, factors: [1, 2]}
)";

class AttentionOfRuns : public ::testing::Test {
 protected:
  // Trains a few steps; the folder of the run.
  std::string trained(const std::string& name, const std::string& encoding,
                      const std::string& more = "") {
    const std::string config = folder_.write(
        name + ".yaml", std::regex_replace(kConfig, std::regex("ENCODING"), encoding));
    const LabResult result =
        run_lab("train " + config + " --progress quiet --out " + (folder_ / name) + " " + more);
    EXPECT_EQ(result.code, 0) << result.out;
    return folder_ / name;
  }
  static void expect_refused(const std::string& arguments, const std::string& part) {
    const LabResult result = run_lab("attention " + arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1) << result.out;
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out;
  }
  testing::Folder folder_;
};

TEST_F(AttentionOfRuns, TrainingKeepsTheFirstSample) {
  const std::string run = trained("run", "rope + cope");
  const auto paths = runs::list_attention(run);
  ASSERT_EQ(paths, (std::vector<fs::path>{runs::attention_path(run, "train", 12, 0)}));
  const runs::AttentionRecord record = runs::read_attention(paths[0]);
  EXPECT_EQ(record.heads, 4);
  EXPECT_EQ(record.layers.size(), 2U);
  EXPECT_TRUE(record.layers[1].has_cope());
  EXPECT_EQ(record.example.encodings, (std::vector<std::string>{"rope + cope", "rope + cope"}));
  EXPECT_EQ(record.example.step, 6);
  EXPECT_EQ(record.example.instruction_begin, 1);
  EXPECT_EQ(record.example.instruction_end, 6);
  EXPECT_EQ(record.example.scored.size(), 6U);
  EXPECT_EQ(record.example.config_hash,
            runs::RunDirectory::open(run, runs::Access::kRead).status().config_hash);
}

TEST_F(AttentionOfRuns, SamplesAreThoseOfTheEvaluation) {
  const std::string run = trained("run", "alibi");
  const LabResult result =
      run_lab("attention " + run + " --sample 5 --axis longer --length 24 --progress quiet");
  ASSERT_EQ(result.code, 0) << result.out;
  const fs::path path = runs::attention_path(run, "longer", 24, 5);
  EXPECT_EQ(result.out, path.string() + "\n");
  const runs::AttentionRecord record = runs::read_attention(path);
  // As evaluate_row draws row 5 of the condition.
  const auto loaded = config::load_config(run + "/config.yaml");
  const auto task = tasks::make_task(loaded.config.task);
  tasks::Batch batch;
  batch.rows = 6;
  task->fill({.axis = "longer", .length = 24, .train_length = 12, .split = tasks::Split::kTest},
             static_cast<std::uint64_t>(loaded.config.eval.seed), 0, batch);
  for (std::size_t t = 0; t < 24; ++t) {
    EXPECT_EQ(record.example.token_ids[t], batch.tokens[5 * 24 + t]);
    EXPECT_EQ(record.example.tokens[t], task->token_text(batch.tokens[5 * 24 + t]));
  }
  for (const runs::ScoredPlace& place : record.example.scored) {
    EXPECT_EQ(place.expected,
              task->token_text(batch.targets[5 * 24 + static_cast<std::size_t>(place.position)]));
  }
}

// As posenc serve starts it.
TEST_F(AttentionOfRuns, WithoutLinksNothingIsReadOrWrittenThroughOne) {
  const std::string run = trained("run", "rope");
  const std::string words = run + " --sample 1 --no-links --progress quiet";
  ASSERT_EQ(run_lab("attention " + words).code, 0);
  fs::rename(run + "/checkpoints", folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", run + "/checkpoints");
  EXPECT_EQ(run_lab("attention " + run + " --sample 2 --progress quiet").code, 0);
  expect_refused(words, "has no checkpoint");
  fs::remove(run + "/checkpoints");
  fs::rename(folder_ / "elsewhere", run + "/checkpoints");
  fs::rename(run + "/attention", folder_ / "records");
  fs::create_directory_symlink(folder_ / "records", run + "/attention");
  expect_refused(run + " --sample 3 --progress quiet", "attention] is a link");
  EXPECT_FALSE(fs::exists(folder_ / "records/train-T12-sample3.safetensors"));
}

TEST_F(AttentionOfRuns, TheBestCheckpointHasAFileOfItsOwn) {
  const std::string run = trained("run", "none");
  const LabResult result = run_lab("attention " + run + " --best --progress quiet");
  EXPECT_EQ(result.out, runs::attention_path(run, "train", 12, 0, true).string() + "\n");
}

TEST_F(AttentionOfRuns, KeepingItChangesNoResult) {
  const auto results = [](const std::string& run) {
    std::string text = to_json(*runs::RunDirectory::open(run, runs::Access::kRead).results());
    for (const char* clock : {"tokens_per_s", "train_seconds", "data_share", "peak_memory_bytes"}) {
      text = std::regex_replace(text, std::regex("\"" + std::string(clock) + "\":[^,]*,"), "");
    }
    return std::regex_replace(text, std::regex("\"attention_samples\":[0-9]+"), "");
  };
  const std::string with = trained("with", "cope", "--set eval.attention_samples=2");
  const std::string without = trained("without", "cope", "--set eval.attention_samples=0");
  EXPECT_EQ(results(with), results(without));
  EXPECT_EQ(runs::list_attention(with).size(), 2U);
  EXPECT_TRUE(runs::list_attention(without).empty());
}

TEST_F(AttentionOfRuns, MistakesAreOneLine) {
  const std::string run = trained("run", "learned(max_positions=30)");
  expect_refused(run + " --axis wider", "axis of selective_counting");
  expect_refused(run + " --axis longer --length 40", "must be <= 30");
  expect_refused(run + " --length 3", "length");
  expect_refused(folder_ / "nowhere", "nowhere");
  const std::string linear = trained("linear", "none", "--set model.attention=linear");
  EXPECT_TRUE(runs::list_attention(linear).empty());
  expect_refused(linear, "must be softmax");
}

TEST(KeptLength, IsTheSameForEveryEncoding) {
  config::LabConfig config;
  config.train.length = 64;
  config.model.layers = 2;
  config.model.heads = 4;
  EXPECT_EQ(kept_length(config), 64);
  config.train.length = 4096;
  EXPECT_EQ(kept_length(config), 181);
  const std::int64_t bytes = 2 * runs::attention_bytes(4, kept_length(config), true);
  EXPECT_LE(bytes, std::int64_t{2} << 20);
}

}  // namespace
}  // namespace posenc::train
