#include "config/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "encodings/hf_keys.h"
#include "posenc/encodings/hf_config.h"

namespace posenc::config {
namespace {

constexpr FieldRule kSizeRule{.doc = "", .min = 1, .max = 1 << 30};
constexpr FieldRule kEpsRule{.doc = "", .min = 0, .max = 0.1, .open_min = true};
constexpr std::array<std::string_view, 5> kTypes = {"llama", "qwen2", "qwen3", "gpt_neox", "gpt2"};

std::int64_t size_of(const HfKeys& keys, std::string_view name) {
  const std::array<std::string_view, 1> names = {name};
  return keys.require(names, kSizeRule);
}

// A key that must be absent or have this value.
template <class Field>
void require_value(const HfKeys& keys, std::string_view key, const Field& value) {
  const auto given = keys.get<Field>(key);
  if (!given || *given == value) return;
  throw keys.error(ErrorKind::kUnsupported, key,
                   "must be " + describe(write_field(value)) + " for the lab's model",
                   describe(write_field(*given)));
}

Mlp activation(const HfKeys& keys, std::string_view key, std::string_view otherwise) {
  const std::string name = keys.get<std::string>(key).value_or(std::string(otherwise));
  if (name == "silu" || name == "swish") return Mlp::kSwiglu;
  if (name == "gelu") return Mlp::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return Mlp::kGeluTanh;
  }
  if (name == "relu") return Mlp::kRelu;
  throw keys.error(ErrorKind::kUnsupported, key, "must be silu, gelu, gelu_new or relu",
                   "'" + name + "'");
}

void require_gate(const HfKeys& keys, std::string_view key, Mlp mlp, bool gated) {
  if ((mlp == Mlp::kSwiglu) == gated) return;
  throw keys.error(ErrorKind::kUnsupported, key,
                   gated ? "must be silu in this family" : "must not be silu in this family",
                   "'" + *keys.get<std::string>(key) + "'");
}

void read_sizes(const HfKeys& keys, const HfModel& found, std::string_view layers,
                std::string_view width, ModelConfig& model) {
  model.layers = size_of(keys, layers);
  model.dim = found.shape.model_dim;
  model.heads = found.shape.heads;
  model.kv_heads = found.kv_heads == found.shape.heads ? 0 : found.kv_heads;
  const bool divides = model.dim == model.heads * found.shape.head_dim;
  model.head_dim = divides ? 0 : found.shape.head_dim;
  model.vocabulary = size_of(keys, "vocab_size");
  const auto given = keys.get<std::int64_t>(width, kSizeRule).value_or(4 * model.dim);
  model.mlp_ratio = static_cast<double>(given) / static_cast<double>(model.dim);
}

// Of Llama and both Qwens.
void read_llama(const HfKeys& keys, const HfModel& found, ModelConfig& model) {
  (void)size_of(keys, "intermediate_size");
  read_sizes(keys, found, "num_hidden_layers", "intermediate_size", model);
  require_value(keys, "use_sliding_window", false);
  model.mlp = activation(keys, "hidden_act", "silu");
  require_gate(keys, "hidden_act", model.mlp, true);
  model.norm_kind = NormKind::kRms;
  model.norm_eps = keys.get<double>("rms_norm_eps", kEpsRule).value_or(1e-6);
  model.tied = keys.get<bool>("tie_word_embeddings").value_or(false);
  model.bias = false;
  const bool biased = keys.get<bool>("attention_bias").value_or(false);
  if (biased) model.attention_bias = AttentionBias::kAll;
  if (found.model_type == "qwen2") model.attention_bias = AttentionBias::kQkv;
  if (keys.get<bool>("mlp_bias").value_or(false)) model.mlp_bias = MlpBias::kAll;
  model.qk_norm = found.model_type == "qwen3";
}

void read_neox(const HfKeys& keys, const HfModel& found, ModelConfig& model) {
  read_sizes(keys, found, "num_hidden_layers", "intermediate_size", model);
  model.mlp = activation(keys, "hidden_act", "gelu");
  require_gate(keys, "hidden_act", model.mlp, false);
  model.norm_eps = keys.get<double>("layer_norm_eps", kEpsRule).value_or(1e-5);
  model.tied = keys.get<bool>("tie_word_embeddings").value_or(false);
  model.parallel = keys.get<bool>("use_parallel_residual").value_or(true);
  if (!keys.get<bool>("attention_bias").value_or(true)) {
    model.attention_bias = AttentionBias::kNone;
  }
}

void read_gpt2(const HfKeys& keys, const HfModel& found, ModelConfig& model) {
  require_value(keys, "scale_attn_weights", true);
  require_value(keys, "scale_attn_by_inverse_layer_idx", false);
  require_value(keys, "add_cross_attention", false);
  read_sizes(keys, found, "n_layer", "n_inner", model);
  model.mlp = activation(keys, "activation_function", "gelu_new");
  require_gate(keys, "activation_function", model.mlp, false);
  model.norm_eps = keys.get<double>("layer_norm_epsilon", kEpsRule).value_or(1e-5);
  model.tied = keys.get<bool>("tie_word_embeddings").value_or(true);
}

std::string encoding_of(const HfKeys& keys, const HfModel& found) {
  if (found.layers.size() != 1) {
    throw keys.error(ErrorKind::kUnsupported, "layer_types",
                     "must be one for all layers of the lab's model",
                     fmt::format("{} of them", found.layers.size()));
  }
  const HfLayer& layer = found.layers.front();
  if (layer.scale) {
    throw keys.error(ErrorKind::kUnsupported, "the scale of scores",
                     "must be 1 / sqrt(head_dim) in the lab's model",
                     fmt::format("{}", *layer.scale));
  }
  return to_text(layer.spec);
}

// Errors of the reader are signed "hf config"; the user named a file.
ModelConfig parsed(std::string_view json) {
  const Value root = parse_json(json, "hf config");
  const HfKeys keys(root, "hf config");
  const auto type = keys.get<std::string>("model_type").value_or("");
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    throw keys.error(ErrorKind::kUnsupported, "model_type",
                     "must be llama, qwen2, qwen3, gpt_neox or gpt2", "'" + type + "'");
  }
  const HfModel found = parse_hf_config(json);
  ModelConfig model;
  model.encoding = {encoding_of(keys, found)};
  if (type == "gpt_neox") {
    read_neox(keys, found, model);
  } else if (type == "gpt2") {
    read_gpt2(keys, found, model);
  } else {
    read_llama(keys, found, model);
  }
  return model;
}

}  // namespace

ModelConfig parse_hf_model(std::string_view json, const std::string& origin) {
  try {
    ModelConfig model = parsed(json);
    validate(model, origin);
    return model;
  } catch (const Error& e) {
    if (e.scope() == origin) throw;
    const std::string key = e.scope() == "hf config" ? e.key() : e.scope() + "." + e.key();
    throw Error(
        e.kind(),
        {.scope = origin, .key = key, .rule = e.rule(), .value = e.value(), .hint = e.hint()});
  }
}

}  // namespace posenc::config
