// config.json as the models of the hub have it: short forms of real files, and what they become.
#include "posenc/encodings/hf_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "posenc/core/error.h"
#include "support/golden.h"
#include "support/temporary_folder.h"

namespace posenc {
namespace {

using testing::Json;

// A small Llama with some keys set or replaced.
std::string llama_with(const std::string& changes) {
  Json config = Json::parse(R"({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8,
                                "max_position_embeddings": 8192})");
  config.update(Json::parse(changes));
  return config.dump();
}

// The spec of a model whose layers are all alike.
std::string spec_of(const std::string& json, Profile profile = Profile::kHf) {
  const HfModel model = parse_hf_config(json, profile);
  EXPECT_EQ(model.layers.size(), 1U);
  EXPECT_EQ(model.layers.at(0).type, "");
  return to_text(model.layers.at(0).spec);
}

// "type: spec" per layer type.
std::vector<std::string> layers_of(const std::string& json) {
  std::vector<std::string> texts;
  for (const HfLayer& layer : parse_hf_config(json).layers) {
    texts.push_back(layer.type + ": " + to_text(layer.spec));
  }
  return texts;
}

using Texts = std::vector<std::string>;

TEST(HfConfig, Llama2) {
  const HfModel model = parse_hf_config(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
    "rope_scaling": null, "rms_norm_eps": 1e-05, "torch_dtype": "float16"})");
  EXPECT_EQ(model.model_type, "llama");
  EXPECT_EQ(model.shape.head_dim, 128);
  EXPECT_EQ(model.shape.heads, 32);
  EXPECT_EQ(model.shape.model_dim, 4096);
  EXPECT_EQ(model.kv_heads, 32);
  EXPECT_EQ(model.max_position_embeddings, 4096);
  EXPECT_FALSE(model.deepseek);
  ASSERT_EQ(model.layers.size(), 1U);
  EXPECT_EQ(to_text(model.layers[0].spec), "rope");
}

TEST(HfConfig, Llama31OldAndNewForm) {
  const std::string want =
      "rope(theta=500000, schedule=llama3(factor=8, low_freq_factor=1, high_freq_factor=4, "
      "original_max_position_embeddings=8192))";
  EXPECT_EQ(spec_of(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"}})"),
            want);
  EXPECT_EQ(spec_of(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "max_position_embeddings": 131072,
    "rope_parameters": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                        "original_max_position_embeddings": 8192, "rope_type": "llama3",
                        "rope_theta": 500000.0}})"),
            want);
}

TEST(HfConfig, MistralHasItsOwnHeadDim) {
  const HfModel model = parse_hf_config(R"({"model_type": "mistral", "hidden_size": 5120,
    "head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 8, "rope_theta": 1000000.0,
    "max_position_embeddings": 131072, "sliding_window": null})");
  EXPECT_EQ(model.shape.head_dim, 128);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(to_text(model.layers.at(0).spec), "rope(theta=1000000)");
}

TEST(HfConfig, OldLinearAndDynamic) {
  EXPECT_EQ(spec_of(llama_with(R"({"rope_scaling": {"type": "linear", "factor": 2.5}})")),
            "rope(schedule=linear(factor=2.5))");
  EXPECT_EQ(spec_of(llama_with(R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})")),
            "rope(schedule=dynamic(factor=2, max_position_embeddings=8192))");
  EXPECT_EQ(spec_of(llama_with(R"({"rope_scaling": {"type": "dynamic", "alpha": 1000.0,
      "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}})")),
            "rope(schedule=ntk(factor=1000))");  // Hunyuan
}

TEST(HfConfig, Qwen2Yarn) {
  EXPECT_EQ(spec_of(R"({"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28,
    "num_key_value_heads": 4, "max_position_embeddings": 32768, "max_window_layers": 28,
    "rope_theta": 1000000.0, "use_sliding_window": false,
    "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}})"),
            "rope(theta=1000000, schedule=yarn(factor=4, original_max_position_embeddings=32768))");
}

TEST(HfConfig, GptOss) {
  EXPECT_EQ(spec_of(R"({"model_type": "gpt_oss", "hidden_size": 2880, "num_attention_heads": 64,
    "head_dim": 64, "num_key_value_heads": 8, "max_position_embeddings": 131072,
    "rope_theta": 150000, "layer_types": ["sliding_attention", "full_attention"],
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "truncate": false,
                     "original_max_position_embeddings": 4096, "rope_type": "yarn"}})"),
            "rope(theta=150000, schedule=yarn(factor=32, original_max_position_embeddings=4096, "
            "truncate=false)) + sink");
}

TEST(HfConfig, QwenVlSections) {
  const std::string chunks = "rope(theta=1000000, axes=mrope(sections=[16, 24, 24]))";
  EXPECT_EQ(spec_of(R"({"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28,
    "rope_theta": 1000000.0, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}})"),
            chunks);
  EXPECT_EQ(spec_of(R"({"model_type": "qwen2_5_vl", "hidden_size": 3584, "num_attention_heads": 28,
    "rope_theta": 1000000.0, "vision_config": {"hidden_size": 1280},
    "rope_scaling": {"rope_type": "default", "type": "default", "mrope_section": [16, 24, 24]}})"),
            chunks);
  EXPECT_EQ(spec_of(R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text",
    "hidden_size": 4096, "head_dim": 128, "num_attention_heads": 32, "rope_theta": 5000000,
    "rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20],
                     "rope_type": "default"}}, "vision_config": {"hidden_size": 1152}})"),
            "rope(theta=5000000, axes=mrope_interleaved(sections=[24, 20, 20]))");
}

TEST(HfConfig, Phi3LongRope) {
  Json config = Json::parse(R"({"model_type": "phi3", "hidden_size": 256,
    "num_attention_heads": 32, "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096, "rope_theta": 10000.0, "rope_scaling": {
      "long_factor": [1.07, 1.12, 1.15, 1.42], "short_factor": [1.0, 1.02, 1.03, 1.05],
      "type": "longrope"}})");
  const std::string want =
      "rope(schedule=longrope(short_factor=[1, 1.02, 1.03, 1.05], "
      "long_factor=[1.07, 1.12, 1.15, 1.42], original_max_position_embeddings=4096, "
      "max_position_embeddings=131072))";
  EXPECT_EQ(spec_of(config.dump()), want);
  config["rope_scaling"]["type"] = "su";
  EXPECT_EQ(spec_of(config.dump()), want);
  config["rope_scaling"]["short_mscale"] = 1.2;  // Phi-3.5-MoE
  config["rope_scaling"]["long_mscale"] = 1.2;
  EXPECT_NE(spec_of(config.dump()).find("attention_factor=1.2"), std::string::npos);
}

TEST(HfConfig, PartOfTheHead) {
  EXPECT_EQ(spec_of(R"({"model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32,
    "partial_rotary_factor": 0.4, "rope_theta": 10000.0, "rope_scaling": null})"),
            "rope(rotary_dim=32)");
  EXPECT_EQ(spec_of(R"({"model_type": "gpt_neox", "hidden_size": 6144, "num_attention_heads": 64,
    "rotary_pct": 0.25, "rotary_emb_base": 10000})"),
            "rope(rotary_dim=24)");
  EXPECT_EQ(spec_of(R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_positions": 2048,
    "rotary_dim": 64, "rotary": true})"),
            "rope(layout=interleaved, rotary_dim=64)");
  EXPECT_EQ(spec_of(R"({"model_type": "glm4", "hidden_size": 4096, "num_attention_heads": 32,
    "head_dim": 128, "partial_rotary_factor": 0.5, "rope_theta": 10000.0})"),
            "rope(layout=interleaved, rotary_dim=64)");
  EXPECT_EQ(spec_of(R"({"model_type": "stablelm", "hidden_size": 2048, "num_attention_heads": 32,
    "rope_theta": 10000})"),
            "rope(rotary_dim=16)");  // the default of its config class
  EXPECT_EQ(spec_of(R"({"model_type": "cohere", "hidden_size": 8192, "num_attention_heads": 64,
    "rope_theta": 8000000.0})"),
            "rope(theta=8000000, layout=interleaved)");
}

TEST(HfConfig, ProportionalKeepsTheWholeHead) {
  EXPECT_EQ(spec_of(llama_with(R"({"rope_parameters": {"rope_type": "proportional",
      "rope_theta": 1000000.0, "partial_rotary_factor": 0.25}})")),
            "rope(theta=1000000, schedule=proportional(partial_rotary_factor=0.25))");
}

TEST(HfConfig, Gemma3OldAndNewForm) {
  const Texts want = {"full_attention: rope(theta=1000000, schedule=linear(factor=8))",
                      "sliding_attention: rope"};
  // As published: the text model's file leaves out what its config class has as a default.
  const HfModel model = parse_hf_config(R"({"model_type": "gemma3", "text_config": {
    "hidden_size": 2560, "model_type": "gemma3_text", "num_hidden_layers": 34,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152, "num_attention_heads": 16}})");
  EXPECT_EQ(model.model_type, "gemma3_text");
  EXPECT_EQ(model.shape.head_dim, 256);
  EXPECT_EQ(model.shape.heads, 8);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(layers_of(R"({"model_type": "gemma3_text", "hidden_size": 1152, "head_dim": 256,
    "num_attention_heads": 4, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}})"),
            want);
  EXPECT_EQ(layers_of(R"({"model_type": "gemma3_text", "hidden_size": 1152, "head_dim": 256,
    "num_attention_heads": 4, "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})"),
            want);
}

TEST(HfConfig, NestedWithNullAndItsOwnHeadDim) {
  EXPECT_EQ(layers_of(llama_with(R"({"rope_parameters": {
      "sliding_attention": {"rope_theta": 10000.0}, "full_attention": null}})")),
            (Texts{"full_attention: none", "sliding_attention: rope"}));
  const HfModel gemma4 = parse_hf_config(llama_with(R"({"head_dim": 256, "global_head_dim": 512,
    "rope_parameters": {
      "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
                         "rope_type": "proportional"},
      "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}})"));
  EXPECT_EQ(gemma4.layers.at(0).shape.head_dim, 512);
  EXPECT_EQ(gemma4.layers.at(1).shape.head_dim, 256);
}

TEST(HfConfig, LayersWithoutRotation) {
  EXPECT_EQ(layers_of(R"({"model_type": "smollm3", "hidden_size": 2048, "num_attention_heads": 16,
    "rope_theta": 5000000.0, "rope_scaling": null, "no_rope_layers": [1, 1, 1, 0]})"),
            (Texts{"rope: rope(theta=5000000)", "no_rope: none"}));
  EXPECT_EQ(
      layers_of(R"({"model_type": "cohere2", "hidden_size": 4096, "num_attention_heads": 32,
    "rope_theta": 50000, "sliding_window": 4096})"),
      (Texts{"sliding_attention: rope(theta=50000, layout=interleaved)", "full_attention: none"}));
}

TEST(HfConfig, Llama4ScalesTheQueriesOfLayersWithoutRotation) {
  const std::string start = R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
    "hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128, "num_hidden_layers": 48,
    "rope_theta": 500000.0, "rope_scaling": null, "no_rope_layers": [])";
  const std::string rope = "rope: rope(theta=500000, layout=interleaved)";
  EXPECT_EQ(layers_of(start + "}}"), (Texts{rope, "no_rope: temperature"}));
  EXPECT_EQ(layers_of(start + R"(, "attn_temperature_tuning": 4, "attn_scale": 0.2,
    "floor_scale": 4096}})"),
            (Texts{rope, "no_rope: temperature(scale=0.2, floor=4096)"}));
  for (const char* off : {"false", "0"}) {
    EXPECT_EQ(layers_of(start + ", \"attn_temperature_tuning\": " + off + "}}"),
              (Texts{rope, "no_rope: none"}));
  }
}

TEST(HfConfig, Ministral3AndMistral4ScaleTheQueriesOfAllLayers) {
  EXPECT_EQ(spec_of(R"({"model_type": "ministral3", "hidden_size": 4096, "num_attention_heads": 32,
    "head_dim": 128, "max_position_embeddings": 262144, "rope_parameters": {
      "type": "yarn", "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
      "original_max_position_embeddings": 16384, "max_position_embeddings": 262144,
      "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
      "llama_4_scaling_beta": 0.1}})"),
            "rope(theta=1000000, schedule=yarn(factor=16, original_max_position_embeddings=16384, "
            "mscale=1, mscale_all_dim=1)) + temperature(floor=16384, offset=0)");
  EXPECT_EQ(spec_of(R"({"model_type": "mistral4", "hidden_size": 4096, "num_attention_heads": 32,
    "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "rope_parameters": {"rope_type": "yarn",
      "rope_theta": 10000.0, "factor": 128.0, "original_max_position_embeddings": 8192,
      "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.2,
      "partial_rotary_factor": 0.5}})"),
            "rope(layout=interleaved, rotary_dim=64, dim_offset=64, schedule=yarn(factor=128, "
            "original_max_position_embeddings=8192, mscale=1, mscale_all_dim=1, "
            "softmax_mscale=true)) + temperature(scale=0.2, offset=0)");
}

TEST(HfConfig, SoftCaps) {
  const std::string gemma2 = R"({"model_type": "gemma2", "hidden_size": 3584, "head_dim": 256,
    "num_attention_heads": 16, "query_pre_attn_scalar": 224)";
  EXPECT_EQ(spec_of(gemma2 + "}"), "rope + softcap");
  EXPECT_EQ(spec_of(gemma2 + R"(, "attn_logit_softcapping": 30.0})"), "rope + softcap(cap=30)");
  EXPECT_EQ(spec_of(gemma2 + R"(, "attn_logit_softcapping": null})"), "rope");
}

TEST(HfConfig, ScaleOfTheScores) {
  const auto scale_of = [](const std::string& json) {
    return parse_hf_config(json).layers.at(0).scale;
  };
  const std::string gemma2 = R"({"model_type": "gemma2", "hidden_size": 3584, "head_dim": 256,
    "num_attention_heads": 16, "query_pre_attn_scalar": )";
  EXPECT_DOUBLE_EQ(scale_of(gemma2 + "144}").value(), 1.0 / 12.0);
  EXPECT_EQ(scale_of(gemma2 + "256}"), std::nullopt);  // 1 / sqrt(head_dim)
  const std::string granite = R"({"model_type": "granite", "hidden_size": 2048,
    "num_attention_heads": 32, "num_key_value_heads": 8, "rope_theta": 10000000.0)";
  EXPECT_EQ(scale_of(granite + R"(, "attention_multiplier": 0.015625})"), 0.015625);
  EXPECT_EQ(scale_of(granite + "}"), 1.0);
  EXPECT_EQ(scale_of(llama_with(R"({"rope_theta": 10000.0})")), std::nullopt);
}

TEST(HfConfig, ModernBert) {
  EXPECT_EQ(layers_of(R"({"model_type": "modernbert", "hidden_size": 768,
    "num_attention_heads": 12, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192, "position_embedding_type": "absolute"})"),
            (Texts{"full_attention: rope(theta=160000)", "sliding_attention: rope"}));
}

constexpr const char* kDeepseekV3 = R"({"model_type": "deepseek_v3", "hidden_size": 7168,
    "num_attention_heads": 128, "num_key_value_heads": 128, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512, "rope_theta": 10000,
    "max_position_embeddings": 163840,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
                     "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096,
                     "type": "yarn"}})";

TEST(HfConfig, DeepseekV3RotatesASliceOfTheHead) {
  const HfModel model = parse_hf_config(kDeepseekV3);
  EXPECT_TRUE(model.deepseek);
  EXPECT_EQ(model.shape.head_dim, 192);
  EXPECT_EQ(to_text(model.layers.at(0).spec),
            "rope(layout=interleaved, rotary_dim=64, dim_offset=128, schedule=yarn(factor=40, "
            "original_max_position_embeddings=4096, mscale=1, mscale_all_dim=1, "
            "softmax_mscale=true))");
}

TEST(HfConfig, ProfilesDecideWhereSystemsDisagree) {
  EXPECT_NE(spec_of(kDeepseekV3, Profile::kVllm).find("magnitude=ratio"), std::string::npos);
  EXPECT_NE(spec_of(kDeepseekV3, Profile::kLlamaCpp).find("magnitude=unit_ratio"),
            std::string::npos);
  const std::string dynamic = llama_with(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})");
  EXPECT_NE(spec_of(dynamic, Profile::kVllm).find("length=fixed"), std::string::npos);
  EXPECT_THROW(parse_hf_config(dynamic, Profile::kLlamaCpp), Error);
}

TEST(HfConfig, Alibi) {
  const HfModel bloom = parse_hf_config(R"({"model_type": "bloom", "n_embed": 14336,
    "hidden_size": 14336, "n_head": 112, "num_attention_heads": 112, "seq_length": 2048})");
  EXPECT_EQ(to_text(bloom.layers.at(0).spec), "alibi");
  EXPECT_EQ(bloom.shape.heads, 112);
  EXPECT_EQ(bloom.shape.head_dim, 128);
  EXPECT_EQ(spec_of(R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "max_seq_len": 2048,
    "attn_config": {"alibi": true, "alibi_bias_max": 16, "attn_impl": "torch"}})"),
            "alibi(slopes=mpt, bias_max=16)");
  EXPECT_EQ(spec_of(R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "max_seq_len": 2048,
    "attn_config": {"alibi": false}})"),
            "learned");
  EXPECT_EQ(spec_of(R"({"model_type": "falcon", "hidden_size": 2048, "num_attention_heads": 32,
    "alibi": true})"),
            "alibi");
  EXPECT_EQ(spec_of(R"({"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12,
    "max_position_embeddings": 8192, "position_embedding_type": "alibi"})"),
            "alibi(bidirectional=true)");
  const HfModel falcon = parse_hf_config(R"({"model_type": "falcon", "hidden_size": 4544,
    "num_attention_heads": 71, "alibi": false, "multi_query": true})");
  EXPECT_EQ(to_text(falcon.layers.at(0).spec), "rope");
  EXPECT_EQ(falcon.kv_heads, 1);
}

TEST(HfConfig, T5) {
  const std::string t5 = R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "num_heads": 6,
    "relative_attention_num_buckets": 64, "relative_attention_max_distance": 256})";
  EXPECT_EQ(layers_of(t5),
            (Texts{"encoder: t5(num_buckets=64, max_distance=256, bidirectional=true)",
                   "decoder: t5(num_buckets=64, max_distance=256)"}));
  EXPECT_EQ(parse_hf_config(t5).shape.head_dim, 64);  // and not 512/6
}

TEST(HfConfig, LearnedPositions) {
  EXPECT_EQ(spec_of(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_positions": 1024,
    "n_ctx": 1024})"),
            "learned(max_positions=1024)");
  EXPECT_EQ(spec_of(R"({"model_type": "opt", "hidden_size": 768, "num_attention_heads": 12,
    "max_position_embeddings": 2048})"),
            "learned");
  EXPECT_EQ(spec_of(R"({"model_type": "roberta", "hidden_size": 768, "num_attention_heads": 12,
    "max_position_embeddings": 514, "position_embedding_type": "absolute"})"),
            "learned(max_positions=514)");
  EXPECT_EQ(spec_of(R"({"model_type": "distilbert", "dim": 768, "n_heads": 12,
    "max_position_embeddings": 512, "sinusoidal_pos_embds": false})"),
            "learned(max_positions=512)");
}

TEST(HfConfig, ModelTypesThatAreNotListed) {
  EXPECT_EQ(spec_of(R"({"model_type": "brand_new", "hidden_size": 512, "num_attention_heads": 8,
    "rope_theta": 20000})"),
            "rope(theta=20000)");
  EXPECT_EQ(spec_of(R"({"hidden_size": 512, "num_attention_heads": 8, "rope_scaling": null})"),
            "rope");
  EXPECT_EQ(spec_of(R"({"model_type": "esm", "hidden_size": 320, "num_attention_heads": 20,
    "position_embedding_type": "rotary"})"),
            "rope");
  const HfModel dbrx = parse_hf_config(R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48,
    "max_seq_len": 32768, "attn_config": {"kv_n_heads": 8, "rope_theta": 500000}})");
  EXPECT_EQ(to_text(dbrx.layers.at(0).spec), "rope(theta=500000)");
  EXPECT_EQ(dbrx.kv_heads, 8);
}

TEST(HfConfig, OldAndNewFormThatAgree) {
  EXPECT_EQ(spec_of(llama_with(R"({"rope_theta": 500000.0,
    "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500000.0},
    "rope_scaling": {"type": "linear", "factor": 2}})")),
            "rope(theta=500000, schedule=linear(factor=2))");
}

TEST(HfConfig, ReadsAFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "config.json";
  std::ofstream(path) << llama_with("{\"rope_theta\": 5e5}");
  EXPECT_EQ(to_text(read_hf_config(path).layers.at(0).spec), "rope(theta=500000)");
  std::filesystem::remove(path);
  EXPECT_THROW(read_hf_config(path), Error);
}

}  // namespace
}  // namespace posenc
