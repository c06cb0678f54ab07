// The config.json of Hugging Face models that the lab's transformer computes exactly: Llama, Qwen 2, Qwen 3,
// GPT-NeoX and GPT-2. Reading gives a ModelConfig; writing is the inverse.
//
//   llama, qwen2, qwen3   RMSNorm, gated SiLU, RoPE; qwen2 has biases of queries, keys and values,
//                         qwen3 norms of queries and keys
//   gpt_neox              LayerNorm, GELU, RoPE of the first channels, attention and feed-forward part side by side
//   gpt2                  LayerNorm, GELU (tanh), learned positions
//
// Dropout is not part of the shape: values in the file are ignored, and the lab's config sets it.
#pragma once

#include <string>
#include <string_view>

#include "config/model_config.h"

namespace posenc::config {

// An Error signed `origin` for other families, and for keys whose value the model cannot express.
ModelConfig parse_hf_model(std::string_view json, const std::string& origin);

// What a file says beyond the model's own fields.
struct HfFacts {
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  // that the model was trained on; a learned table has its own
};
// An Error signed `origin` that names the field which no family of the five can express.
std::string hf_model_json(const ModelConfig& model, const HfFacts& facts,
                          const std::string& origin);

}  // namespace posenc::config
