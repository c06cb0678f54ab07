// Which tensors conversion takes for q and k, and what it refuses to guess.
#include <gtest/gtest.h>

#include "posenc/core/error.h"
#include "posenc/weights/convert.h"
#include "support/checkpoint_case.h"
#include "weights/name_pattern.h"

namespace posenc::weights {
namespace {

using testing::TemporaryFolder;

struct Entry {
  std::string name;
  Shape shape;
};

// The action on every tensor, or the error's text.
struct Planned {
  std::vector<std::string> permuted;
  std::string error;
};

Planned plan(const std::vector<Entry>& entries, LayoutOptions options) {
  const TemporaryFolder folder;
  Rng rng(1);
  std::vector<testing::OwnedTensor> tensors;
  for (const Entry& entry : entries) {
    tensors.push_back(testing::random_tensor(entry.name, ElementType::kU8, entry.shape, rng));
  }
  testing::write_tensors(folder / "in", tensors);
  Planned planned;
  try {
    const auto report = convert_layout(folder / "in", folder / "out", options, {.dry_run = true});
    for (const TensorReport& t : report.tensors) {
      if (t.action == TensorAction::kPermuted) planned.permuted.push_back(t.tensor.name);
    }
  } catch (const Error& error) {
    planned.error = error.what();
  }
  EXPECT_EQ(folder.files(), std::vector<std::string>{"in"}) << "a dry run writes nothing";
  return planned;
}

using Names = std::vector<std::string>;
const LayoutOptions kFours = {.heads = {4, 2, 1, 4, 0}};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(NamePattern, EndsOfNamesOrWholeNames) {
  EXPECT_TRUE(matches("q_proj", "q_proj"));
  EXPECT_TRUE(matches("q_proj", "a.q_proj"));
  EXPECT_FALSE(matches("q_proj", "a.xq_proj"));
  EXPECT_FALSE(matches("q_proj", "a.q_proj.b"));
  EXPECT_TRUE(matches("*q_proj", "a.xq_proj"));
  EXPECT_TRUE(matches("h.*.a?c", "h.10.b.abc"));
  EXPECT_FALSE(matches("h.*.a?c", "h.10.ac"));
  EXPECT_TRUE(matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(matches("*a*b*", "xxbxxaxx"));
  EXPECT_EQ(rest_after("q_proj", "m.q_proj.lora_A.weight"), "lora_A.weight");
  EXPECT_EQ(rest_after("*.weight", "m.q_proj.weight"), "");
  EXPECT_EQ(rest_after("k_proj", "m.q_proj.weight"), std::nullopt);
}

TEST(LayoutNames, KnownProjections) {
  const std::vector<std::array<std::string, 2>> pairs = {
      {"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight"},
      {"layers.0.attention.wq.weight", "layers.0.attention.wk.weight"},
      {"roformer.encoder.layer.0.attention.self.query.weight",
       "roformer.encoder.layer.0.attention.self.key.weight"},
      {"blocks.0.to_q.weight", "blocks.0.to_k.weight"},
  };
  for (const auto& [q, k] : pairs) {
    EXPECT_EQ(plan({{q, {8, 3}}, {k, {4, 3}}, {"x.v_proj.weight", {4, 3}}}, kFours).permuted,
              (Names{q, k}));
  }
  for (const std::string name :
       {"gpt_neox.layers.0.attention.query_key_value.weight",
        "model.layers.0.attention.wqkv.weight", "model.layers.0.self_attn.qkv_proj.weight",
        "l.0.attn.Wqkv.weight", "transformer.h.0.attn.c_attn.weight"}) {
    EXPECT_EQ(plan({{name, {16, 3}}}, kFours).permuted, Names{name});
  }
}

TEST(LayoutNames, LoraScalesAndNormsFollow) {
  const Planned planned = plan({{"q_proj.weight", {8, 3}},
                                {"q_proj.weight_scale", {8, 1}},
                                {"q_proj.input_scale", {}},
                                {"q_proj.lora_A.default.weight", {2, 3}},
                                {"q_proj.lora_B.default.weight", {8, 2}},
                                {"k_proj.weight", {4, 3}},
                                {"k_proj.weight_scale", {1}},
                                {"k_layernorm.norms.0.weight", {4}},
                                {"q_norm.weight", {2, 4}}},
                               kFours);
  EXPECT_EQ(planned.permuted,
            (Names{"q_proj.weight", "q_proj.weight_scale", "q_proj.lora_B.default.weight",
                   "k_proj.weight", "k_layernorm.norms.0.weight", "q_norm.weight"}))
      << planned.error;
}

TEST(LayoutNames, WhatCannotFollowIsRefused) {
  const Entry q{"q_proj.weight", {8, 3}};
  const Entry k{"k_proj.weight", {4, 3}};
  EXPECT_SAYS(plan({q, k, {"q_proj.qweight", {8, 1}}}, kFours).error, "is of an unknown kind");
  EXPECT_SAYS(plan({q, k, {"q_proj.weight.absmax", {8}}}, kFours).error, "is of an unknown kind");
  EXPECT_SAYS(plan({q, k, {"q_proj.weight_scale_inv", {4, 1}}}, kFours).error,
              "one scale, or one per row of the weight but got [4, 1]");
  EXPECT_SAYS(plan({q, k, {"q_norm.weight", {6}}}, kFours).error, "must have 4 channels");
  LayoutOptions keep = kFours;
  keep.keep = {"q_proj.qweight"};
  EXPECT_EQ(plan({q, k, {"q_proj.qweight", {8, 1}}}, keep).error, "");
}

TEST(LayoutNames, OtherTowersAreLeftAlone) {
  const Planned planned = plan({{"language_model.q_proj.weight", {8, 3}},
                                {"language_model.k_proj.weight", {4, 3}},
                                {"vision_tower.layers.0.q_proj.weight", {7, 3}},
                                {"draft.q_proj.weight", {7, 3}}},
                               {.heads = {4, 2, 1, 4, 0}, .keep = {"draft"}});
  EXPECT_EQ(planned.permuted,
            (Names{"language_model.q_proj.weight", "language_model.k_proj.weight"}));
}

TEST(LayoutNames, GivenNamesReplaceTheKnown) {
  LayoutOptions options = kFours;
  options.q = {"*.queries"};
  options.k = {"keys.kernel"};
  EXPECT_EQ(plan({{"a.queries.weight", {8, 3}}, {"a.keys.kernel", {4, 3}}, {"q_proj.weight", {7}}},
                 options)
                .permuted,
            (Names{"a.queries.weight", "a.keys.kernel"}));
  options = kFours;
  options.fused = {"mixer.in_proj"};
  EXPECT_SAYS(plan({{"mixer.in_proj.weight", {16, 3}}}, options).error,
              "add --qkv concat or --qkv grouped");
  options.order = FusedOrder::kGrouped;
  EXPECT_EQ(plan({{"mixer.in_proj.weight", {16, 3}}}, options).permuted,
            Names{"mixer.in_proj.weight"});
  EXPECT_SAYS(plan({{"a", {1}}}, {.q = {""}}).error, "--q-proj must be a name or a pattern");
}

TEST(LayoutNames, AmbiguousFusedNamesAreNotGuessed) {
  for (const char* name : {"transformer.h.0.self_attention.query_key_value.weight",
                           "transformer.h.0.attn.qkv_proj.weight"}) {
    EXPECT_SAYS(plan({{name, {16, 3}}}, kFours).error, "in an unknown order");
    LayoutOptions told = kFours;
    told.order = FusedOrder::kGrouped;
    EXPECT_EQ(plan({{name, {16, 3}}}, told).permuted, Names{name});
  }
}

TEST(LayoutNames, NothingFoundIsAnError) {
  EXPECT_SAYS(plan({{"a", {8}}}, kFours).error, "no projection of q and k was found");
  EXPECT_SAYS(plan({{"q_proj.weight", {8}}}, kFours).error, "no projection of k was found");
  EXPECT_SAYS(plan({{"k_proj.weight", {4}}}, kFours).error, "no projection of q was found");
}

TEST(LayoutNames, SizesMustFit) {
  const Entry q{"q_proj.weight", {8, 3}};
  const Entry k{"k_proj.weight", {4, 3}};
  EXPECT_SAYS(plan({q, k}, {}).error, "add --head-dim, --heads, or --config");
  EXPECT_SAYS(plan({q, k}, {.heads = {.head_dim = 3}}).error, "rotary_dim must be even");
  EXPECT_SAYS(plan({q, k}, {.heads = {.head_dim = 6}}).error, "must have a multiple of 6 rows");
  EXPECT_SAYS(plan({q, k}, {.heads = {.heads = 3}}).error, "must have a multiple of 3 rows");
  EXPECT_SAYS(plan({q, k}, {.heads = {4, 2, 2}}).error, "(k) must have 2 heads of 4 rows");
  EXPECT_SAYS(plan({q, k}, {.heads = {4, 3, 2}}).error, "heads must be a multiple of kv_heads");
  EXPECT_SAYS(plan({q, k}, {.heads = {4, 2, 1, 4, 2}}).error, "from dim_offset (2) on but got 4");
  EXPECT_SAYS(plan({q, k}, {.heads = {-4}}).error, "head_dim must be in [0, 1048576] but got -4");
  EXPECT_SAYS(plan({{"a.Wqkv.weight", {16, 3}}}, {.heads = {.head_dim = 4}}).error,
              "heads is required, because 'a.Wqkv.weight' holds q, k and v");
  EXPECT_SAYS(plan({{"a.Wqkv.weight", {16, 3}}}, {.heads = {4, 4, 1}}).error,
              "must have 4 + 2 * 1 heads of 4 rows but got [16, 3]");
}

TEST(LayoutNames, TheModelSaysWhatTurns) {
  const auto heads = [](const std::string& json) { return model_heads(parse_hf_config(json)); };
  const ModelHeads neox = heads(R"({"model_type": "gpt_neox", "hidden_size": 64,
      "num_attention_heads": 4, "rotary_pct": 0.25})");
  EXPECT_EQ(neox.heads, (HeadShape{16, 4, 4, 4, 0}));
  EXPECT_EQ(neox.layout, PairLayout::kHalf);
  const ModelHeads latent = heads(R"({"model_type": "deepseek_v3", "hidden_size": 64,
      "num_attention_heads": 4, "num_key_value_heads": 4, "qk_nope_head_dim": 8,
      "qk_rope_head_dim": 4})");
  EXPECT_EQ(latent.heads, (HeadShape{12, 4, 4, 4, 8}));
  EXPECT_EQ(latent.layout, PairLayout::kInterleaved);
  EXPECT_THROW(heads(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_positions": 8})"),
               Error);
  EXPECT_THROW(heads(R"({"model_type": "codegen", "n_embd": 64, "n_head": 4, "rotary_dim": 8})"),
               Error);
}

}  // namespace
}  // namespace posenc::weights
