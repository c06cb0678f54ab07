// The transformer of the lab, as a config: small, and any encoding in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/field_use.h"
#include "posenc/core/fields.h"

namespace posenc::config {

enum class Norm { kPre, kPost };
constexpr std::array<std::string_view, 2> enum_names(Norm /*tag*/) { return {"pre", "post"}; }

enum class NormKind { kLayer, kRms };
constexpr std::array<std::string_view, 2> enum_names(NormKind /*tag*/) { return {"layer", "rms"}; }

// GELU is x Phi(x); gelu_tanh is its approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which
// GPT-2 has.
enum class Mlp { kGelu, kRelu, kSwiglu, kGeluTanh };
constexpr std::array<std::string_view, 4> enum_names(Mlp /*tag*/) {
  return {"gelu", "relu", "swiglu", "gelu_tanh"};
}

// Which layers of a part have biases; as_bias: all of them if model.bias, else none.
enum class AttentionBias { kAsBias, kNone, kQkv, kAll };
constexpr std::array<std::string_view, 4> enum_names(AttentionBias /*tag*/) {
  return {"as_bias", "none", "qkv", "all"};
}
enum class MlpBias { kAsBias, kNone, kAll };
constexpr std::array<std::string_view, 3> enum_names(MlpBias /*tag*/) {
  return {"as_bias", "none", "all"};
}

// The shape of a published model; fields that a config writes win over it.
//   gpt2    pre-norm, GELU, tied embeddings (Radford et al. 2019)
//   llama   pre-norm with RMSNorm, SwiGLU of 8/3, no biases (Touvron et al. 2023)
//   cope    post-norm, ReLU, tied embeddings, dropout 0.1 everywhere (Golovneva et al. 2024)
//   qwen2   llama with biases of queries, keys and values (Yang et al. 2024, arXiv 2407.10671)
//   qwen3   llama with RMSNorm of queries and keys (Yang et al. 2025, arXiv 2505.09388)
//   neox    pre-norm, GELU, attention and feed-forward part side by side (Black et al. 2022, arXiv 2204.06745)
enum class Preset { kNone, kGpt2, kLlama, kCope, kQwen2, kQwen3, kNeox };
constexpr std::array<std::string_view, 7> enum_names(Preset /*tag*/) {
  return {"none", "gpt2", "llama", "cope", "qwen2", "qwen3", "neox"};
}

enum class AttentionKind { kSoftmax, kLinear };
constexpr std::array<std::string_view, 2> enum_names(AttentionKind /*tag*/) {
  return {"softmax", "linear"};
}

// Queries times ln(i + 1) / ln(train length) from the second token on (Chiang and Cholak 2022), or
// times s_h ln(i + 1) with a trained s_h (scalable softmax, Nakanishi 2025): a row of twice the length
// then needs no larger scores to stay as sharp.
enum class ScoreScaling { kNone, kLog, kLearnedLog };
constexpr std::array<std::string_view, 3> enum_names(ScoreScaling /*tag*/) {
  return {"none", "log", "learned_log"};
}

struct ModelConfig {
  Preset preset = Preset::kNone;
  std::vector<std::string> encoding = {"none"};
  std::int64_t layers = 2;
  std::int64_t dim = 64;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  Mlp mlp = Mlp::kGelu;
  double mlp_ratio = 4.0;
  Norm norm = Norm::kPre;
  NormKind norm_kind = NormKind::kLayer;
  bool qk_norm = false;
  AttentionKind attention = AttentionKind::kSoftmax;
  std::string linear_form = "elu";
  std::int64_t window = -1;
  ScoreScaling score_scaling = ScoreScaling::kNone;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  double mlp_dropout = 0.0;
  bool bias = true;
  bool tied = false;
  // Later fields: hashes leave them out at their defaults (load.cc).
  double norm_eps = 0.0;
  AttentionBias attention_bias = AttentionBias::kAsBias;
  MlpBias mlp_bias = MlpBias::kAsBias;
  bool parallel = false;
  std::int64_t vocabulary = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("preset", self.preset,
          FieldRule{.doc = "defaults of the other fields, as a published model has them"});
    visit("encoding", self.encoding,
          FieldRule{.doc = "a spec, or a list of specs that is repeated over the layers"});
    visit("layers", self.layers, FieldRule{.doc = "blocks", .min = 1, .max = 1024});
    visit("dim", self.dim,
          FieldRule{.doc = "width of the residual stream", .min = 2, .max = 65536});
    visit("heads", self.heads, FieldRule{.doc = "heads of the queries", .min = 1, .max = 1024});
    visit("kv_heads", self.kv_heads,
          FieldRule{.doc = "heads of keys and values; 0: as many as heads", .min = 0, .max = 1024});
    visit("head_dim", self.head_dim,
          FieldRule{.doc = "channels of a head; 0: dim / heads", .min = 0, .max = 1024});
    visit("mlp", self.mlp, FieldRule{.doc = "of the feed-forward part"});
    visit("mlp_ratio", self.mlp_ratio,
          FieldRule{.doc = "its width over dim", .min = 0, .max = 64, .open_min = true});
    visit("norm", self.norm, FieldRule{.doc = "before each part, or after its sum"});
    visit("norm_kind", self.norm_kind, FieldRule{.doc = "LayerNorm or RMSNorm"});
    visit("qk_norm", self.qk_norm,
          ReadIf{{.doc = "RMSNorm of queries and keys, per head"}, "attention=softmax"});
    visit("attention", self.attention, FieldRule{.doc = "softmax, or linear in the length"});
    visit("linear_form", self.linear_form,
          ReadIf{{.doc = "elu, relu or cosine, for linear attention"}, "attention=linear"});
    visit("window", self.window,
          ReadIf{{.doc = "keys that a query sees before itself; -1: all", .min = -1, .max = 1e9},
                 "attention=softmax"});
    visit("score_scaling", self.score_scaling,
          ReadIf{{.doc = "of the scores, by the logarithm of the length"}, "attention=softmax"});
    visit("dropout", self.dropout,
          FieldRule{.doc = "of embeddings and of what parts add", .min = 0, .max = 0.95});
    visit(
        "attention_dropout", self.attention_dropout,
        ReadIf{{.doc = "of the attention's weights", .min = 0, .max = 0.95}, "attention=softmax"});
    visit("mlp_dropout", self.mlp_dropout,
          FieldRule{.doc = "inside the feed-forward part", .min = 0, .max = 0.95});
    visit("bias", self.bias, FieldRule{.doc = "in projections and feed-forward parts"});
    visit("tied", self.tied, FieldRule{.doc = "the head is the embedding"});
    visit("norm_eps", self.norm_eps,
          FieldRule{.doc = "added to the variance by norms, those of queries and keys included; 0: "
                           "1e-5 in LayerNorm, 1e-6 in RMSNorm",
                    .min = 0,
                    .max = 0.1});
    visit("attention_bias", self.attention_bias,
          FieldRule{.doc = "biases of the projections, where they differ from bias: none, those of "
                           "queries, keys and values, or all"});
    visit("mlp_bias", self.mlp_bias,
          FieldRule{.doc = "biases of feed-forward parts, where they differ from bias"});
    visit("parallel", self.parallel,
          ReadIf{{.doc = "attention and feed-forward part read the same input"}, "norm=pre"});
    visit("vocabulary", self.vocabulary,
          FieldRule{.doc = "rows of the embedding; 0: as many as the task has tokens",
                    .min = 0,
                    .max = 1e8});
  }
  bool operator==(const ModelConfig&) const = default;
};

// The spec of a layer; lists are repeated.
const std::string& layer_encoding(const ModelConfig& model, std::int64_t layer);
std::int64_t head_dim(const ModelConfig& model);
std::int64_t kv_heads(const ModelConfig& model);
// What 0 and as_bias stand for.
double norm_eps(const ModelConfig& model);
double rms_eps(const ModelConfig& model);  // of queries and keys
bool qkv_bias(const ModelConfig& model);
bool out_bias(const ModelConfig& model);
bool mlp_bias(const ModelConfig& model);
std::int64_t mlp_width(const ModelConfig& model);
// Rows of the embedding for a task; an Error where the model has fewer than the task has tokens.
std::int64_t vocabulary(const ModelConfig& model, std::int64_t of_task);
// The shortest table of positions that a spec of the model reads, or -1 where none ends.
std::int64_t longest_length(const ModelConfig& model);

// Throws an Error signed `scope` where the parts do not fit together: a spec that is none, heads that
// do not divide dim, encodings that differ at the input, linear attention with a bias.
void validate(const ModelConfig& model, const std::string& scope);

}  // namespace posenc::config
