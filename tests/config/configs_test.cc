// The configs that are shipped: each loads, says all of itself, and makes what it names.
#include <gtest/gtest.h>

#include <filesystem>

#include "config/load.h"
#include "support/shipped_configs.h"

namespace posenc::config {
namespace {

using testing::header_of;
using testing::shipped_configs;
using testing::top_level_keys;

std::vector<std::string> experiments() {
  std::vector<std::string> paths;
  for (const std::string& path : shipped_configs()) {
    if (top_level_keys(path).count("task") > 0) paths.push_back(path);
  }
  for (const std::string& path : shipped_configs("recipes")) paths.push_back(path);
  return paths;
}

// A recipe says the shape of its model, so that it loads before the run that it starts from is there; both must agree.
TEST(Configs, RecipesHaveTheModelOfTheirBase) {
  const auto recipes = shipped_configs("recipes");
  const auto base = std::find_if(recipes.begin(), recipes.end(), [](const std::string& path) {
    return path.ends_with("/base.yaml");
  });
  ASSERT_NE(base, recipes.end());
  const ModelConfig model = load_config(*base).config.model;
  for (const std::string& path : recipes) {
    LabConfig config = load_config(path).config;
    EXPECT_EQ(config.train.init_from, path == *base ? "" : "runs/recipes/base") << path;
    config.model.encoding = model.encoding;
    EXPECT_EQ(config.model, model) << path;
  }
}

// The bases of the evidence pages are among them.
TEST(Configs, AreThereForThePapersSetUps) {
  std::vector<std::string> paths = experiments();
  for (const std::string& path : shipped_configs("evidence/base")) paths.push_back(path);
  std::set<std::string> tasks;
  for (const std::string& path : paths) tasks.insert(task_name(load_config(path).config));
  for (const char* task : {"flip_flop", "selective_copy", "counting_program", "selective_counting",
                           "language_model", "masked_language_model", "passage_matching"}) {
    EXPECT_EQ(tasks.count(task), 1U) << task;
  }
}

TEST(Configs, EveryFileIsAnExperimentOrASweep) {
  for (const std::string& path : shipped_configs()) {
    const auto keys = top_level_keys(path);
    EXPECT_EQ(keys.count("task") + keys.count("base"), 1U) << path;
  }
}

TEST(Configs, ReadBackAsTheSameConfig) {
  for (const std::string& path : experiments()) {
    const Loaded loaded = load_config(path);
    const Loaded again = parse_config(to_yaml(loaded.tree), path);
    EXPECT_EQ(again.config, loaded.config) << path;
    EXPECT_EQ(again.hash, loaded.hash) << path;
    EXPECT_NO_THROW(validate(loaded.config.model, path)) << path;
    EXPECT_NO_THROW(validate(loaded.config.train, path)) << path;
    EXPECT_EQ(std::filesystem::path(path).stem().string(), loaded.config.name);
  }
}

// Corpora have to be fetched first; where one is named, it is said how.
bool needs_corpus(const LabConfig& config) {
  const Value tree = resolved_tree(config);
  return tree.find("task")->find(task_name(config))->find("corpus") != nullptr;
}

TEST(Configs, MakeSamplesOfTheLengthsTheyName) {
  for (const std::string& path : experiments()) {
    const LabConfig config = load_config(path).config;
    if (needs_corpus(config)) {
      EXPECT_NE(header_of(path).find("posenc data "), std::string::npos) << path;
      continue;
    }
    const auto task = tasks::make_task(config.task);
    for (const Stage& stage : stages(config.train)) {
      tasks::Batch batch;
      batch.rows = 1;
      task->fill(
          {.axis = "train", .length = stage.length, .train_length = train_length(config.train)}, 0,
          0, batch);
      EXPECT_TRUE(std::any_of(batch.targets.begin(), batch.targets.end(), [](std::int32_t target) {
        return target != tasks::kUnscored;
      })) << path;
    }
  }
}

// What it shows comes first; then the figure to expect, and what it costs on what.
TEST(Configs, HeadersSayWhatToExpectOnWhichHardwareAndHowLong) {
  for (const std::string& path : experiments()) {
    const std::string header = header_of(path);
    const std::size_t expected = header.find("Expected");
    EXPECT_NE(expected, std::string::npos) << path;
    EXPECT_GT(expected, 40U) << path << ": nothing before it says what the config shows";
    EXPECT_NE(header.find("Hardware and time: "), std::string::npos) << path;
    EXPECT_NE(header.find("posenc train " + path.substr(path.rfind("configs/"))), std::string::npos)
        << path;
  }
}

}  // namespace
}  // namespace posenc::config
