// Reads the config.json of a Hugging Face model, as it is, into specs.
//
//   const HfModel model = read_hf_config("config.json");
//   to_text(model.layers[0].spec)
//     "rope(theta=500000, schedule=llama3(factor=8, low_freq_factor=1, high_freq_factor=4, ...))"
//
// What is understood:
//   rotation  rope_parameters, flat or nested by layer type (an entry null: no rotation), or the
//             older rope_scaling with `type` or `rope_type`; beside them rope_theta,
//             partial_rotary_factor, rotary_pct and rotary_emb_base (GPT-NeoX), rotary_dim (GPT-J),
//             original_max_position_embeddings (Phi-3), rope_local_base_freq (Gemma 3), global_ and
//             local_rope_theta (ModernBERT), mrope_section and mrope_interleaved (Qwen-VL),
//             no_rope_layers (Llama 4, SmolLM3), qk_nope_head_dim and qk_rope_head_dim (DeepSeek)
//   scores    attn_logit_softcapping (Gemma 2), sinks (gpt-oss), attn_temperature_tuning, attn_scale and
//             floor_scale (Llama 4), llama_4_scaling_beta (Ministral 3, Mistral 4);
//             query_pre_attn_scalar (Gemma) and attention_multiplier (Granite) as the layer's scale
//   biases    ALiBi (BLOOM, MPT, Falcon), T5's buckets
//   learned   GPT-2, OPT, BERT and their relatives
// A model of several modalities is read through its text_config. The model type decides which
// channels make a pair, which the file does not say (GPT-J, Cohere, GLM, Llama 4 and DeepSeek
// interleave them), and the values that Hugging Face's config class has where the file has none.
//
// Errors are of type Error, signed "hf config", "rope_parameters", "rope_scaling" or, by layer
// type, "rope_parameters.full_attention", and name the key, the rule and the value. Hugging Face
// warns and goes on where a value is wrong; here that is an error, and so is a key that the
// rope_type has no use for, or two places that contradict each other. null says the same as an
// absent key.
//
// Known differences from transformers: MPT's alibi_bias_max is honoured (transformers always takes
// 8); the table of `learned` has max_position_embeddings rows (OPT has two more, and OPT and
// RoBERTa count positions from 2); Falcon divides ALiBi's bias by sqrt(head_dim) together with the
// score, which is left to the caller; original_max_position_embeddings is required where a schedule
// needs it (transformers falls back to max_position_embeddings); the temperature of Ministral 3 and
// Mistral 4 steps at position original_max_position_embeddings - 1, and in transformers one later.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/encodings/spec.h"

namespace posenc {

// What the layers of one type do. A spec without encodings means: no positions.
struct HfLayer {
  std::string type;  // "full_attention", "encoder", ...; empty when all layers are alike
  Spec spec;
  ModelShape shape;  // the model's, but for layer types with a head_dim of their own (Gemma 4)
  std::optional<double> scale = std::nullopt;  // of scores, where it is not 1 / sqrt(head_dim)
};

struct HfModel {
  std::string model_type;  // of the text model; empty when the file does not say
  ModelShape shape;
  std::int64_t kv_heads = 0;
  std::int64_t max_position_embeddings = 0;  // 0 when the file does not say
  std::vector<HfLayer> layers;               // one entry, or one per layer type
  bool deepseek = false;  // multi-head latent attention, whose YaRN vLLM treats in its own way
};

// The profile says whose choices to take where systems disagree (with_profile). Precision is left
// at its default; with_precision(layer.spec, Precision::kHf) has the float32 arithmetic of
// transformers.
HfModel parse_hf_config(std::string_view json, Profile profile = Profile::kHf);
HfModel read_hf_config(const std::string& path, Profile profile = Profile::kHf);

}  // namespace posenc
