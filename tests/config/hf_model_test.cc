#include "config/hf_model.h"

#include <gtest/gtest.h>

#include "config/init_from.h"
#include "config/load.h"
#include "posenc/encodings/spec.h"
#include "support/message_of.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace posenc::config {
namespace {

using testing::message_of;

std::string golden_folder(const std::string& family) {
  return std::string(posenc::testing::kTestData) + "/golden/hf_models/" + family;
}
std::string golden_config(const std::string& family) {
  return read_file(golden_folder(family) + "/config.json");
}
std::string problem(const std::string& json) {
  return message_of([&] { (void)parse_hf_model(json, "config.json"); });
}
ModelConfig of(const std::string& family) { return parse_hf_model(golden_config(family), family); }

TEST(HfModel, ReadsTheFiveFamilies) {
  const ModelConfig llama = of("llama");
  EXPECT_EQ(llama.norm_kind, NormKind::kRms);
  EXPECT_EQ(llama.head_dim, 8);
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(mlp_width(llama), 40);
  EXPECT_EQ(llama.norm_eps, 1e-5);
  EXPECT_FALSE(qkv_bias(llama) || out_bias(llama) || mlp_bias(llama) || llama.tied);
  EXPECT_EQ(llama.encoding.front(),
            "rope(theta=500, schedule=llama3(factor=8, low_freq_factor=1, high_freq_factor=4, "
            "original_max_position_embeddings=16))");
  const ModelConfig qwen2 = of("qwen2");
  EXPECT_TRUE(qkv_bias(qwen2) && !out_bias(qwen2) && qwen2.tied && !qwen2.qk_norm);
  EXPECT_EQ(qwen2.head_dim, 0);
  const ModelConfig qwen3 = of("qwen3");
  EXPECT_TRUE(qwen3.qk_norm && !qkv_bias(qwen3));
  const ModelConfig neox = of("gpt_neox");
  EXPECT_TRUE(neox.parallel && qkv_bias(neox) && mlp_bias(neox));
  EXPECT_EQ(neox.mlp, Mlp::kGelu);
  EXPECT_EQ(neox.encoding.front(), "rope(rotary_dim=4)");
  const ModelConfig gpt2 = of("gpt2");
  EXPECT_EQ(gpt2.mlp, Mlp::kGeluTanh);
  EXPECT_TRUE(gpt2.tied);
  EXPECT_EQ(gpt2.encoding.front(), "learned(max_positions=24)");
}

TEST(HfModel, WhatItWritesItReadsAgain) {
  for (const char* family : {"llama", "qwen2", "qwen3", "gpt_neox", "gpt2"}) {
    const ModelConfig model = of(family);
    const std::string json =
        hf_model_json(model, {.vocabulary = model.vocabulary, .positions = 64}, "run");
    EXPECT_EQ(parse_hf_model(json, "again"), model) << json;
    EXPECT_NE(json.find(std::string("\"model_type\":\"") + family + "\""), std::string::npos)
        << json;
  }
}

TEST(HfModel, WritesEverySchedule) {
  for (const char* encoding :
       {"rope(theta=1000)", "rope(schedule=linear(factor=8))",
        "rope(schedule=dynamic(factor=4, max_position_embeddings=64))",
        "rope(schedule=yarn(factor=8, original_max_position_embeddings=64, beta_fast=16))",
        "rope(schedule=longrope(short_factor=[1, 1], long_factor=[1, 4], "
        "original_max_position_embeddings=64, factor=4))",
        "rope(rotary_dim=2)"}) {
    ModelConfig model = of("llama");
    model.head_dim = 4;
    model.encoding = {encoding};
    const std::string json = hf_model_json(model, {.vocabulary = 32, .positions = 64}, "run");
    EXPECT_EQ(parse_hf_model(json, "again").layers, 2) << json;
  }
}

// NTK-aware scaling has no name in config.json: it is another base.
TEST(HfModel, WritesNtkAsItsBase) {
  ModelConfig model = of("llama");
  model.encoding = {"rope(theta=100, schedule=ntk(factor=8))"};
  const std::string json = hf_model_json(model, {.vocabulary = 32, .positions = 64}, "run");
  // 100 * 8^(8 / 6)
  const Spec read = parse_spec(parse_hf_model(json, "again").encoding.front());
  EXPECT_NEAR(std::get<Rope>(read.encodings.front()).theta.front(), 1600.0, 1e-9);
}

TEST(HfModel, NamesTheFieldThatNoFamilyHas) {
  const auto said = [](const std::string& family, const auto& change) {
    ModelConfig model = of(family);
    change(model);
    return message_of(
        [&] { (void)hf_model_json(model, {.vocabulary = 32, .positions = 64}, "run"); });
  };
  EXPECT_NE(said("llama", [](ModelConfig& m) { m.encoding = {"rope + cope"}; })
                .find("[run] model.encoding must be one rope, or one learned"),
            std::string::npos);
  EXPECT_NE(said("llama", [](ModelConfig& m) { m.norm = Norm::kPost; })
                .find("[run] model.norm must be pre but got 'post'"),
            std::string::npos);
  EXPECT_NE(said("llama", [](ModelConfig& m) { m.mlp = Mlp::kGelu; }).find("model.mlp must be"),
            std::string::npos);
  EXPECT_NE(said("gpt2", [](ModelConfig& m) { m.kv_heads = 1; }).find("model.kv_heads"),
            std::string::npos);
  EXPECT_NE(said("gpt2", [](ModelConfig& m) { m.window = 4; }).find("model.window"),
            std::string::npos);
  EXPECT_NE(said("llama", [](ModelConfig& m) { m.encoding = {"rope(layout=interleaved)"}; })
                .find("model.encoding cannot be written"),
            std::string::npos);
}

TEST(HfModel, RefusesWhatTheModelCannotExpress) {
  EXPECT_EQ(
      problem(R"({"model_type": "bert"})"),
      "[config.json] model_type must be llama, qwen2, qwen3, gpt_neox or gpt2 but got 'bert'");
  std::string llama = golden_config("llama");
  llama.replace(llama.find("\"silu\""), 6, "\"gelu\"");
  EXPECT_NE(problem(llama).find("hidden_act must be silu in this family"), std::string::npos);
  EXPECT_NE(problem(R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 1,
                        "n_positions": 8, "vocab_size": 8, "scale_attn_weights": false})")
                .find("scale_attn_weights must be true"),
            std::string::npos);
  EXPECT_NE(problem(R"({"model_type": "gpt2", "n_embd": 16, "n_head": 2, "n_layer": 1,
                        "n_positions": 8})")
                .find("vocab_size"),
            std::string::npos);
}

// --- train.init_from in a config -----------------------------------------------------------------

const std::string kTask = "task: flip_flop\n";

Loaded loaded(const std::string& more, const std::vector<std::string>& overrides = {}) {
  return parse_config(kTask + more, "a.yaml", overrides);
}
std::string said_by(const std::string& more) {
  return message_of([&] { (void)loaded(more); });
}

TEST(InitFrom, GivesTheModelItsShape) {
  const std::string from = "train: {init_from: " + golden_folder("qwen3") + "}\n";
  const ModelConfig kept = loaded(from).config.model;
  EXPECT_EQ(kept, of("qwen3"));
  const ModelConfig other =
      loaded(from + "model: {encoding: rope + cope, dropout: 0.1, dim: 16}\n").config.model;
  EXPECT_EQ(other.encoding.front(), "rope + cope");
  EXPECT_EQ(other.dropout, 0.1);
  EXPECT_EQ(other.layers, 2);
}

TEST(InitFrom, RefusesAnotherShape) {
  const std::string from = "train: {init_from: " + golden_folder("qwen3") + "}\n";
  const std::string said = said_by(from + "model: {dim: 32}\n");
  EXPECT_NE(said.find("[a.yaml] model.dim must be 16, as train.init_from"), std::string::npos)
      << said;
  EXPECT_NE(said.find("but got 32"), std::string::npos) << said;
  EXPECT_EQ(said_by("train: {init_from: no/such/place}\n"), "nothing was thrown");
  EXPECT_NE(message_of([] { (void)read_init_source("no/such/place"); })
                .find("[train] init_from must be a run directory, a safetensors file or a Hugging "
                      "Face folder but got 'no/such/place', which does not exist"),
            std::string::npos);
}

TEST(InitFrom, DoesNotFollowItselfForEver) {
  const testing::TemporaryFolder folder;
  const std::string config = kTask + "train: {init_from: " + folder.path() + "}\n";
  testing::write_content(folder / "config.yaml", config);
  EXPECT_NE(message_of([&] {
              (void)load_config(folder / "config.yaml");
            }).find("train.init_from must not lead back to itself"),
            std::string::npos);
}

// A run can be evaluated after the folder that it started from is gone.
TEST(InitFrom, AResolvedConfigNeedsNoSource) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "model");
  testing::write_content(folder / "model/config.json", golden_config("gpt2"));
  const Loaded first = loaded("train: {init_from: " + (folder / "model") + ", length: 16}\n");
  std::filesystem::remove(folder / "model/config.json");
  std::filesystem::remove(folder / "model");
  const Loaded again = parse_config(to_yaml(first.tree), "b.yaml");
  EXPECT_EQ(again.config, first.config);
  EXPECT_EQ(again.hash, first.hash);
}

// The hash of this config before those fields were there.
TEST(InitFrom, LaterFieldsAtTheirDefaultsKeepHashes) {
  const std::string base = loaded("").hash;
  EXPECT_EQ(base, "70c05e0d1258d774");
  for (const char* same : {"model.norm_eps=0", "model.parallel=false", "model.vocabulary=0",
                           "model.attention_bias=as_bias", "model.mlp_bias=as_bias"}) {
    EXPECT_EQ(loaded("", {same}).hash, base) << same;
  }
  for (const char* other : {"model.norm_eps=1e-4", "model.parallel=true", "model.vocabulary=300",
                            "model.attention_bias=qkv", "model.mlp_bias=none"}) {
    EXPECT_NE(loaded("", {other}).hash, base) << other;
  }
}

TEST(ModelShapes, PresetsHaveTheFieldsOfTheirPapers) {
  const auto preset = [](const std::string& name) {
    return loaded("model: {preset: " + name + "}\n").config.model;
  };
  const ModelConfig qwen2 = preset("qwen2");
  EXPECT_TRUE(qwen2.norm_kind == NormKind::kRms && qwen2.mlp == Mlp::kSwiglu);
  EXPECT_TRUE(qkv_bias(qwen2) && !out_bias(qwen2) && !mlp_bias(qwen2));
  EXPECT_TRUE(preset("qwen3").qk_norm && !qkv_bias(preset("qwen3")));
  EXPECT_TRUE(preset("neox").parallel && mlp_bias(preset("neox")));
}

TEST(ModelShapes, FieldsThatDoNotGoTogether) {
  EXPECT_NE(
      said_by("model: {norm: post, parallel: true}\n").find("model.parallel needs model.norm"),
      std::string::npos);
  ModelConfig model;
  model.vocabulary = 10;
  EXPECT_EQ(vocabulary(model, 7), 10);
  EXPECT_NE(message_of([&] {
              (void)vocabulary(model, 11);
            }).find("[model] vocabulary must be at least 11, the tokens of the task but got 10"),
            std::string::npos);
}

}  // namespace
}  // namespace posenc::config
