// Reads the config.json of a Hugging Face model into specs.
//
//   const HfModel model = read_hf_config("config.json");
//   to_text(model.layers[0].spec)
//     "rope(theta=500000, schedule=llama3(factor=8, low_freq_factor=1, high_freq_factor=4, ...))"
//
// Supported keys:
//   rotation  rope_parameters, flat or nested by layer type (null: no rotation), or the older
//             rope_scaling with `type` or `rope_type`; also rope_theta,
//             partial_rotary_factor, rotary_pct and rotary_emb_base (GPT-NeoX), rotary_dim (GPT-J),
//             original_max_position_embeddings (Phi-3), rope_local_base_freq (Gemma 3), global_ and
//             local_rope_theta (ModernBERT), mrope_section and mrope_interleaved (Qwen-VL),
//             no_rope_layers (Llama 4, SmolLM3), qk_nope_head_dim and qk_rope_head_dim (DeepSeek)
//   scores    attn_logit_softcapping (Gemma 2), sinks (gpt-oss), attn_temperature_tuning, attn_scale and
//             floor_scale (Llama 4), llama_4_scaling_beta (Ministral 3, Mistral 4);
//             query_pre_attn_scalar (Gemma) and attention_multiplier (Granite) as the layer's scale
//   biases    ALiBi (BLOOM, MPT, Falcon), T5's buckets
//   learned   GPT-2, OPT, BERT and their relatives
// A multimodal model is read through its text_config. The file does not contain everything: the
// model type determines which channels make a pair (GPT-J, Cohere, GLM, Llama 4 and DeepSeek
// interleave them) and the defaults of Hugging Face's config class for missing keys.
//
// Errors are of type Error. Their scope is "hf config", "rope_parameters", "rope_scaling" or, per
// layer type, "rope_parameters.full_attention"; they name the key, the rule and the value. Where
// Hugging Face only warns about an invalid value, this is an error here. So are keys that the
// rope_type does not use, and keys that contradict each other. null is the same as an absent key.
//
// Known differences from transformers: MPT's alibi_bias_max is used (transformers always uses 8);
// the table of `learned` has max_position_embeddings rows (OPT has two more, and OPT and RoBERTa
// count positions from 2); Falcon divides ALiBi's bias by sqrt(head_dim) together with the score,
// which the caller has to do; original_max_position_embeddings is required if a schedule needs it
// (transformers falls back to max_position_embeddings); the temperature of Ministral 3 and
// Mistral 4 steps at position original_max_position_embeddings - 1, and in transformers one later.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/encodings/spec.h"

namespace posenc {

// The layers of one type. An empty spec means no positions.
struct HfLayer {
  std::string type;  // "full_attention", "encoder", ...; empty if all layers are the same
  Spec spec;
  ModelShape shape;  // the model's, except for layer types with their own head_dim (Gemma 4)
  std::optional<double> scale = std::nullopt;  // of scores, if it is not 1 / sqrt(head_dim)
};

struct HfModel {
  std::string model_type;  // of the text model; empty if the file has none
  ModelShape shape;
  std::int64_t kv_heads = 0;
  std::int64_t max_position_embeddings = 0;  // 0 if the file has none
  std::vector<HfLayer> layers;               // one entry, or one per layer type
  bool deepseek = false;  // multi-head latent attention, for which vLLM has a different YaRN
};

// The profile selects the system to follow where systems disagree (with_profile). Precision keeps
// its default; for the float32 arithmetic of transformers use
// with_precision(layer.spec, Precision::kHf).
HfModel parse_hf_config(std::string_view json, Profile profile = Profile::kHf);
HfModel read_hf_config(const std::string& path, Profile profile = Profile::kHf);

}  // namespace posenc

// SPDX-License-Identifier: MIT
