#include "config/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/bind.h"
#include "support/paths.h"

namespace posenc::config {
namespace {

constexpr const char* kSmall = R"(name: small
task: flip_flop
model:
  encoding: rope + alibi
  layers: 3
train:
  steps: 50
)";

// The message of the error that this config and these overrides give, or "" where there is none.
std::string problem(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse_config(yaml, "small.yaml", overrides);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(LoadConfig, ReadsWhatIsWrittenAndKeepsDefaults) {
  const Loaded loaded = parse_config(kSmall, "small.yaml");
  EXPECT_EQ(loaded.config.name, "small");
  EXPECT_EQ(loaded.config.model.layers, 3);
  EXPECT_EQ(loaded.config.model.encoding, std::vector<std::string>{"rope + alibi"});
  EXPECT_EQ(loaded.config.model.dim, ModelConfig{}.dim);
  EXPECT_EQ(task_name(loaded.config), "flip_flop");
}

TEST(LoadConfig, TheResolvedTreeReadsBackAsTheSameConfig) {
  const Loaded loaded = parse_config(
      kSmall, "small.yaml",
      {"train.stages=[{length: 8, batch: 4, steps: 2}, {length: 16, batch: 2, steps: 3}]",
       "model.encoding=[rope, rope, none]", "task.flip_flop.sparse_ignore=0.95"});
  const Loaded again = parse_config(to_yaml(loaded.tree), "config.yaml");
  EXPECT_EQ(again.config, loaded.config);
  EXPECT_EQ(again.hash, loaded.hash);
  EXPECT_EQ(again.config.train.stages.size(), 2U);
  EXPECT_EQ(again.config.model.encoding.size(), 3U);
  // Every field is there, defaults too.
  const Value* task = loaded.tree.find("task");
  ASSERT_NE(task, nullptr);
  ASSERT_NE(task->find("flip_flop"), nullptr);
  EXPECT_NE(task->find("flip_flop")->find("dense_ignore"), nullptr);
}

TEST(LoadConfig, ANameCannotLeaveTheOutputFolder) {
  const std::string task = "task: flip_flop\n";
  for (const std::string name :
       {"../../x", "/tmp/x", "a/b", ".", "..", ".hidden", "a\\b", "", "a\u202eb"}) {
    // As an override the text arrives as it is; in YAML some of these have to be quoted.
    const std::string said = problem(task, {"name=" + name});
    EXPECT_NE(said.find("name must be a plain name"), std::string::npos) << name << ": " << said;
  }
  EXPECT_NE(problem(task, {"name=a\xff"}).find("is not UTF-8"), std::string::npos);
  EXPECT_NE(problem(task, {"name=a\x1b[2J"}).find("control character"), std::string::npos);
  EXPECT_NE(problem("name: \"a\\x1b[2J\"\n" + task).find("name must be a plain name"),
            std::string::npos);
  EXPECT_EQ(
      problem("name: ../../x\n" + task),
      "[small.yaml] name must be a plain name of 1 to 200 bytes: no slash, no control character, "
      "no dot in front but got '../../x'; write name: my_run, and choose the folder with --out");
  EXPECT_NE(problem("name: ''\n" + task), "");
  EXPECT_NE(problem("name: " + std::string(201, 'a') + "\n" + task), "");
  for (const std::string name : {"run", "rope + cope", "r\u00f4pe-2.1", "-x"}) {
    EXPECT_EQ(problem(task, {"name=" + name}), "") << name;
  }
}

TEST(LoadConfig, OverridesReachNestedFields) {
  const Loaded loaded =
      parse_config(kSmall, "small.yaml",
                   {"model.layers=4", "train.lr=1e-2", "model.encoding=rope(theta=100)", "seed=7"});
  EXPECT_EQ(loaded.config.model.layers, 4);
  EXPECT_EQ(loaded.config.train.lr, 1e-2);
  EXPECT_EQ(loaded.config.model.encoding.front(), "rope(theta=100)");
  EXPECT_EQ(loaded.config.seed, 7);
}

TEST(LoadConfig, HashFollowsWhatChangesResultsAndNothingElse) {
  const std::string base = parse_config(kSmall, "a.yaml").hash;
  EXPECT_EQ(parse_config(kSmall, "b.yaml", {"name=other", "train.log_every=3"}).hash, base);
  EXPECT_EQ(parse_config(kSmall, "b.yaml", {"model.dim=64"}).hash, base);
  EXPECT_EQ(parse_config(kSmall, "b.yaml", {"eval.samples=7"}).hash, base);
  for (const char* same : {"train.shard_optimizer=true", "train.checkpoint_blocks=true",
                           "train.timeout=5", "train.chunks=2"}) {
    EXPECT_EQ(parse_config(kSmall, "b.yaml", {same}).hash, base) << same;
  }
  const std::string fixed = "train.reduction=deterministic";
  EXPECT_NE(parse_config(kSmall, "b.yaml", {fixed, "train.chunks=2"}).hash, base);
  EXPECT_NE(parse_config(kSmall, "b.yaml", {fixed, "train.chunks=2"}).hash,
            parse_config(kSmall, "b.yaml", {fixed, "train.chunks=1"}).hash);
  EXPECT_NE(parse_config(kSmall, "b.yaml", {"seed=1"}).hash, base);
  EXPECT_NE(parse_config(kSmall, "b.yaml", {"model.encoding=rope"}).hash, base);
  EXPECT_NE(parse_config(kSmall, "b.yaml", {"task.flip_flop.sparse_ignore=0.9"}).hash, base);
}

// What decides the figures of a trained model, apart from what decides the model.
TEST(LoadConfig, EvaluationsHaveAHashOfTheirOwn) {
  const std::string base = parse_config(kSmall, "a.yaml").eval_hash;
  for (const char* same : {"seed=1", "model.encoding=rope", "eval.tokens_per_batch=99",
                           "eval.attention_samples=0", "eval.threshold=0.5"}) {
    EXPECT_EQ(parse_config(kSmall, "b.yaml", {same}).eval_hash, base) << same;
  }
  for (const char* other : {"eval.samples=7", "eval.factors=[1, 3]", "eval.seed=5",
                            "eval.conditions=[{axis: sparse, length: 40}]"}) {
    EXPECT_NE(parse_config(kSmall, "b.yaml", {other}).eval_hash, base) << other;
  }
}

TEST(LoadConfig, SchedulesBelongToTheEvaluation) {
  const Loaded base = parse_config(kSmall, "a.yaml");
  const auto with = [](const std::string& schedules) {
    return parse_config(kSmall, "b.yaml", {"eval.schedules=" + schedules});
  };
  EXPECT_EQ(with("none").eval_hash, base.eval_hash);
  EXPECT_NE(with("yarn").eval_hash, base.eval_hash);
  EXPECT_NE(with("[yarn, ntk]").eval_hash, with("yarn").eval_hash);
  EXPECT_EQ(with("[yarn, ntk]").hash, base.hash) << "the model is the same";
  EXPECT_EQ(stretch_schedules(base.config.eval), std::vector<std::string>{});
  EXPECT_EQ(stretch_schedules(with("[yarn, ntk]").config.eval),
            (std::vector<std::string>{"yarn", "ntk"}));
  EXPECT_EQ(parse_config(to_yaml(base.tree), "again").config, base.config) << "none reads back";
}

TEST(LoadConfig, SchedulesAreKnownAndNamedOnce) {
  const auto error = [](const std::string& schedules) {
    return problem(kSmall, {"eval.schedules=" + schedules});
  };
  EXPECT_NE(error("[ntk, yarm]").find("eval.schedules"), std::string::npos) << error("[ntk, yarm]");
  EXPECT_NE(error("[ntk, yarm]").find("'yarm'; did you mean 'yarn'?"), std::string::npos)
      << error("[ntk, yarm]");
  EXPECT_NE(error("[ntk, ntk]").find("must name each schedule once"), std::string::npos);
  EXPECT_NE(error("[none, ntk]").find("'none'"), std::string::npos) << error("[none, ntk]");
}

// Runs that are committed must stay the runs of their configs: fields that came later change no hash.
TEST(LoadConfig, CommittedRunsKeepTheirHashes) {
  namespace fs = std::filesystem;
  int checked = 0;
  for (const char* name : {"text-small/main", "copy-small/main"}) {
    const fs::path folder = fs::path(posenc::testing::kTestData) / "../docs/evidence" / name;
    for (const fs::directory_entry& run : fs::directory_iterator(folder)) {
      if (!fs::exists(run.path() / "config.yaml")) continue;
      const std::string path = (run.path() / "results.json").string();
      const Value results = parse_json(read_file(path), path);
      const auto eval = bind_config<EvalConfig>(*results.find("eval"), path);
      EXPECT_EQ(eval_hash(eval), *results.find("eval_hash")->get_if<std::string>()) << path;
      EXPECT_EQ(load_config((run.path() / "config.yaml").string()).hash,
                *results.find("config_hash")->get_if<std::string>())
          << path;
      ++checked;
    }
  }
  EXPECT_GE(checked, 80);
}

// The hash is that of version 0.1.0 before the field: such runs must not be trained again.
TEST(LoadConfig, CountingWithoutALeakKeepsTheHashItHad) {
  const std::string path =
      std::string(posenc::testing::kTestData) + "/../configs/selective_counting.yaml";
  const std::string hash = load_config(path, {"name=seed0"}).hash;
  EXPECT_EQ(hash.substr(0, 8), "047cc5e1");
  EXPECT_NE(load_config(
                path, {"task.selective_counting.labels=raw", "task.selective_counting.answer=final",
                       "task.selective_counting.leak=true"})
                .hash,
            load_config(path, {"task.selective_counting.labels=raw",
                               "task.selective_counting.answer=final"})
                .hash);
}

TEST(LoadConfig, MoreStepsExtendARunAndNothingElseDoes) {
  const LabConfig base =
      parse_config(kSmall, "a.yaml", {"train.stages=[]", "train.steps=100"}).config;
  const auto changed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train.stages=[]", "train.steps=100"};
    all.insert(all.end(), more.begin(), more.end());
    return extends(parse_config(kSmall, "b.yaml", all).config, base);
  };
  EXPECT_TRUE(changed({"train.steps=101"}));
  EXPECT_TRUE(changed({"train.steps=101", "eval.samples=3"}));
  EXPECT_FALSE(changed({}));
  EXPECT_FALSE(changed({"train.steps=99"}));
  EXPECT_FALSE(changed({"train.steps=101", "seed=4"}));
}

TEST(LoadConfig, OnlyRatesThatDoNotKnowTheLastStepExtendExactly) {
  const auto exact = [&](const std::vector<std::string>& fields) {
    std::vector<std::string> shorter = {"train.stages=[]", "train.steps=100"};
    shorter.insert(shorter.end(), fields.begin(), fields.end());
    std::vector<std::string> longer = shorter;
    longer.emplace_back("train.steps=200");
    return extends_exactly(parse_config(kSmall, "b.yaml", longer).config,
                           parse_config(kSmall, "a.yaml", shorter).config);
  };
  EXPECT_TRUE(exact({"train.schedule=constant", "train.warmup=10"}));
  EXPECT_FALSE(exact({"train.schedule=constant", "train.warmup=0.1"}));
  EXPECT_FALSE(exact({"train.schedule=cosine", "train.warmup=10"}));
  EXPECT_FALSE(exact(
      {"train.schedule=constant", "train.warmup=10", "train.patience=3", "train.eval_every=5"}));
}

TEST(LoadConfig, APresetGivesDefaultsThatWrittenFieldsWinOver) {
  const auto model = [](const std::string& fields) {
    return parse_config("task: flip_flop\nmodel: {" + fields + "}\n", "a.yaml").config.model;
  };
  const ModelConfig llama = model("preset: llama");
  EXPECT_EQ(llama.norm_kind, NormKind::kRms);
  EXPECT_EQ(llama.mlp, Mlp::kSwiglu);
  EXPECT_DOUBLE_EQ(llama.mlp_ratio, 8.0 / 3.0);
  EXPECT_FALSE(llama.bias);
  const ModelConfig cope = model("preset: cope, tied: false");
  EXPECT_EQ(cope.norm, Norm::kPost);
  EXPECT_EQ(cope.mlp, Mlp::kRelu);
  EXPECT_EQ(cope.attention_dropout, 0.1);
  EXPECT_FALSE(cope.tied);
  EXPECT_TRUE(model("preset: gpt2").tied);
  EXPECT_EQ(model("preset: none"), model("layers: 2"));
  EXPECT_NE(problem("task: flip_flop\nmodel: {preset: lama}\n").find("llama"), std::string::npos);
}

TEST(LoadConfig, MistakesNameFileLineColumnAndTheNearestName) {
  EXPECT_EQ(
      problem("task: flip_flop\nmodel:\n  layer: 3\n"),
      "[small.yaml] model.layer is not a known key (line 3, column 3); did you mean 'layers'?");
  EXPECT_EQ(problem("task: flip_flop\nmodel:\n  layers: three\n"),
            "[small.yaml] model.layers must be an integer but got 'three' (line 3, column 11)");
  EXPECT_EQ(problem("task: flipflop\n"),
            "[small.yaml] task must be a known name but got 'flipflop' (line 1, column 7); did you "
            "mean 'flip_flop'?");
  EXPECT_EQ(problem("task: flip_flop\ntask: parity\n"),
            "[small.yaml] task is given twice (line 2, column 1); keep one of the two");
  EXPECT_EQ(problem("task: flip_flop\nmodel:\n  <<: {layers: 3}\n"),
            "[small.yaml] uses a merge key '<<', which would be ignored (line 3, column 3); write "
            "the fields out");
  EXPECT_EQ(problem("model: {layers: 3}\n"),
            "[small.yaml] task is required (line 1, column 1); add it");
  EXPECT_NE(problem("task: flip_flop\ntrain:\n  stages:\n    - {length: 8, batch: 2}\n")
                .find("train.stages[0].steps is required"),
            std::string::npos);
}

TEST(LoadConfig, MistakesOfOverridesSaySo) {
  EXPECT_EQ(problem(kSmall, {"model.layers"}),
            "[--set] model.layers has no value; write it as model.layers=4");
  EXPECT_NE(problem(kSmall, {"model.layers=x"}).find("model.layers must be an integer"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"model..layers=3"}).find("empty field"), std::string::npos);
  EXPECT_NE(problem(kSmall, {"model.layers.deep=3"}).find("has no fields"), std::string::npos);
}

TEST(LoadConfig, LinearAttentionRotatesByPositionsAlone) {
  const std::string linear = "model.attention=linear";
  EXPECT_EQ(problem(kSmall, {"model.encoding=rope", linear}), "");
  EXPECT_EQ(problem(kSmall, {"model.encoding=rope(schedule=learnable) + xpos", linear}), "");
  for (const char* rope :
       {"rope(angles=input)", "rope(angles=input_position, running=true)", "rope(values=true)"}) {
    const std::string encoding = std::string("model.encoding=") + rope;
    EXPECT_EQ(problem(kSmall, {encoding}), "") << rope;
    const std::string message = problem(kSmall, {encoding, linear});
    EXPECT_NE(message.find(std::string("model.encoding must rotate queries and keys by positions "
                                       "alone with model.attention=linear but got ") +
                           rope),
              std::string::npos)
        << message;
  }
}

TEST(LoadConfig, PartsThatDoNotFitTogetherAreRefused) {
  EXPECT_NE(problem(kSmall, {"model.heads=5"}).find("model.heads must divide model.dim (64)"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"model.attention=linear"}).find("does not go with linear attention"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"model.encoding=rope", "model.attention=linear",
                             "model.attention_dropout=0.1"})
                .find("model.attention_dropout needs softmax attention"),
            std::string::npos);
  for (const char* field : {"qk_norm=true", "score_scaling=log"}) {
    const std::string name = std::string("model.") + field;
    EXPECT_NE(problem(kSmall, {"model.encoding=rope", "model.attention=linear", name})
                  .find(name.substr(0, name.find('=')) + " needs softmax attention"),
              std::string::npos);
  }
  EXPECT_NE(problem(kSmall, {"eval.conditions=[{axis: sparse}]", "eval.factors=[1, 3]"})
                .find("eval.factors is not read where eval.conditions"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"eval.conditions=[{axis: sparse}]", "eval.axes=[dense]"})
                .find("eval.axes is not read where eval.conditions"),
            std::string::npos);
  EXPECT_EQ(problem(kSmall, {"eval.conditions=[{axis: sparse}]"}), "");
  for (const char* field : {"train.patience=1", "train.stop_at=0.5"}) {
    EXPECT_NE(problem(kSmall, {"train.eval_every=0", field})
                  .find("needs evaluations during the training but got"),
              std::string::npos)
        << field;
    EXPECT_EQ(problem(kSmall, {"train.eval_every=5", field}), "") << field;
  }
  EXPECT_NE(problem(kSmall, {"model.mlp_ratio=0.001"})
                .find("model.mlp_ratio must make a hidden layer of at least one unit"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"eval.lengths=[64, 0]"}).find("must not mix 0 with other lengths"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"model.encoding=[sinusoidal, rope]"}).find("in every entry"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"train.positions=shift"}).find("train.position_range"),
            std::string::npos);
  const std::string fixed = "train.reduction=deterministic";
  EXPECT_NE(problem(kSmall, {fixed, "train.chunks=3"}).find("must be a power of two"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {fixed, "train.chunks=1024"}).find("must divide the"),
            std::string::npos);
  EXPECT_EQ(problem(kSmall, {"train.chunks=3"}), "") << "not read";
  EXPECT_NE(problem(kSmall, {"train.accumulate=3"}).find("must divide the batch"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"model.encoding=ropee"}).find("did you mean 'rope'?"),
            std::string::npos);
  EXPECT_NE(problem(kSmall, {"train.precision=bfloat16"}).find("cuda"), std::string::npos);
}

}  // namespace
}  // namespace posenc::config
