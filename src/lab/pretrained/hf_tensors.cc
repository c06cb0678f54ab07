#include "pretrained/hf_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "posenc/encodings/spec.h"

namespace posenc::pretrained {
namespace {

using config::ModelConfig;
using weights::Shape;

class Rules {
 public:
  Rules(const ModelConfig& model, std::int64_t vocabulary)
      : model_(model),
        vocabulary_(vocabulary),
        q_(model.heads * config::head_dim(model)),
        kv_(config::kv_heads(model) * config::head_dim(model)),
        mlp_(config::mlp_width(model)) {}

  std::vector<TensorRule> llama() {
    embedding("model.embed_tokens", "lm_head", "model.norm");
    for (std::int64_t n = 0; n < model_.layers; ++n) llama_layer(n);
    return std::move(all_);
  }

  std::vector<TensorRule> neox() {
    embedding("gpt_neox.embed_in", "embed_out", "gpt_neox.final_layer_norm");
    for (std::int64_t n = 0; n < model_.layers; ++n) {
      const std::string lab = fmt::format("blocks.{}.", n);
      const std::string file = fmt::format("gpt_neox.layers.{}.", n);
      norm(lab + "norm1", file + "input_layernorm");
      norm(lab + "norm2", file + "post_attention_layernorm");
      fused(lab, file + "attention.query_key_value", config::head_dim(model_));
      dense(lab + "attention.out_proj", file + "attention.dense", model_.dim, q_,
            config::out_bias(model_));
      dense(lab + "mlp.up", file + "mlp.dense_h_to_4h", mlp_, model_.dim, true);
      dense(lab + "mlp.down", file + "mlp.dense_4h_to_h", model_.dim, mlp_, true);
    }
    return std::move(all_);
  }

  std::vector<TensorRule> gpt2() {
    transposed_ = true;
    embedding("transformer.wte", "lm_head", "transformer.ln_f");
    if (const std::int64_t rows = config::longest_length(model_); rows > 0) {
      same("input.pos.learned.weight", "transformer.wpe.weight", {rows, model_.dim});
    }
    for (std::int64_t n = 0; n < model_.layers; ++n) {
      const std::string lab = fmt::format("blocks.{}.", n);
      const std::string file = fmt::format("transformer.h.{}.", n);
      norm(lab + "norm1", file + "ln_1");
      norm(lab + "norm2", file + "ln_2");
      fused(lab, file + "attn.c_attn", 0);
      dense(lab + "attention.out_proj", file + "attn.c_proj", model_.dim, q_, true);
      dense(lab + "mlp.up", file + "mlp.c_fc", mlp_, model_.dim, true);
      dense(lab + "mlp.down", file + "mlp.c_proj", model_.dim, mlp_, true);
    }
    return std::move(all_);
  }

 private:
  void llama_layer(std::int64_t n) {
    const std::string lab = fmt::format("blocks.{}.", n);
    const std::string file = fmt::format("model.layers.{}.", n);
    const bool qkv = config::qkv_bias(model_);
    const bool mlp = config::mlp_bias(model_);
    norm(lab + "norm1", file + "input_layernorm");
    norm(lab + "norm2", file + "post_attention_layernorm");
    dense(lab + "attention.q_proj", file + "self_attn.q_proj", q_, model_.dim, qkv);
    dense(lab + "attention.k_proj", file + "self_attn.k_proj", kv_, model_.dim, qkv);
    dense(lab + "attention.v_proj", file + "self_attn.v_proj", kv_, model_.dim, qkv);
    dense(lab + "attention.out_proj", file + "self_attn.o_proj", model_.dim, q_,
          config::out_bias(model_));
    if (model_.qk_norm) {
      const Shape channels = {config::head_dim(model_)};
      same(lab + "attention.q_norm", file + "self_attn.q_norm.weight", channels);
      same(lab + "attention.k_norm", file + "self_attn.k_norm.weight", channels);
    }
    dense(lab + "mlp.gate", file + "mlp.gate_proj", mlp_, model_.dim, mlp);
    dense(lab + "mlp.up", file + "mlp.up_proj", mlp_, model_.dim, mlp);
    dense(lab + "mlp.down", file + "mlp.down_proj", model_.dim, mlp_, mlp);
  }

  void same(const std::string& lab, const std::string& file, const Shape& shape) {
    all_.push_back({.lab = lab, .lab_shape = shape, .file = file, .file_shape = shape});
  }
  void norm(const std::string& lab, const std::string& file) {
    same(lab + ".weight", file + ".weight", {model_.dim});
    if (model_.norm_kind == config::NormKind::kLayer) {
      same(lab + ".bias", file + ".bias", {model_.dim});
    }
  }
  void embedding(const std::string& tokens, const std::string& head, const std::string& last) {
    same("embed.weight", tokens + ".weight", {vocabulary_, model_.dim});
    if (!model_.tied) same("head.weight", head + ".weight", {vocabulary_, model_.dim});
    norm("norm", last);
  }
  void dense(const std::string& lab, const std::string& file, std::int64_t out, std::int64_t in,
             bool bias) {
    all_.push_back({.lab = lab + ".weight",
                    .lab_shape = {out, in},
                    .file = file + ".weight",
                    .file_shape = transposed_ ? Shape{in, out} : Shape{out, in},
                    .transposed = transposed_});
    if (bias) same(lab + ".bias", file + ".bias", {out});
  }
  void fused(const std::string& lab, const std::string& file, std::int64_t head_rows) {
    constexpr std::array<const char*, 3> kNames = {"q_proj", "k_proj", "v_proj"};
    for (std::int64_t part = 0; part < 3; ++part) {
      TensorRule rule{
          .lab = fmt::format("{}attention.{}.weight", lab, kNames[part]),
          .lab_shape = {q_, model_.dim},
          .file = file + ".weight",
          .file_shape = transposed_ ? Shape{model_.dim, 3 * q_} : Shape{3 * q_, model_.dim},
          .transposed = transposed_,
          .part = part,
          .parts = 3,
          .head_rows = head_rows};
      all_.push_back(rule);
      if (!config::qkv_bias(model_)) continue;
      rule.lab = fmt::format("{}attention.{}.bias", lab, kNames[part]);
      rule.lab_shape = {q_};
      rule.file = file + ".bias";
      rule.file_shape = {3 * q_};
      rule.transposed = false;
      all_.push_back(rule);
    }
  }

  const ModelConfig& model_;
  std::int64_t vocabulary_, q_, kv_, mlp_;
  bool transposed_ = false;
  std::vector<TensorRule> all_;
};

}  // namespace

std::size_t TensorRule::place(std::int64_t row, std::int64_t column) const {
  const std::int64_t rows = lab_shape.front();
  const std::int64_t columns = lab_shape.size() > 1 ? lab_shape[1] : 1;
  // Rows of the fused tensor: heads one after another, or the parts.
  const std::int64_t out = head_rows > 0
                               ? (row / head_rows * parts + part) * head_rows + row % head_rows
                               : part * rows + row;
  return static_cast<std::size_t>(transposed ? column * parts * rows + out
                                             : out * columns + column);
}

std::vector<TensorRule> hf_tensors(HfNames names, const ModelConfig& model,
                                   std::int64_t vocabulary) {
  Rules rules(model, vocabulary);
  if (names == HfNames::kNeox) return rules.neox();
  return names == HfNames::kGpt2 ? rules.gpt2() : rules.llama();
}

HfNames hf_names(const ModelConfig& model) {
  if (model.norm_kind == config::NormKind::kRms) return HfNames::kLlama;
  return config::longest_length(model) > 0 ? HfNames::kGpt2 : HfNames::kNeox;
}

std::string_view prefix(HfNames names) {
  if (names == HfNames::kNeox) return "gpt_neox.";
  return names == HfNames::kGpt2 ? "transformer." : "model.";
}

std::string_view head_name(HfNames names) {
  return names == HfNames::kNeox ? "embed_out.weight" : "lm_head.weight";
}

std::optional<HfNames> hf_names_in(const std::vector<std::string>& tensors) {
  constexpr std::array<std::string_view, 3> kEmbeddings = {"embed_tokens.weight", "embed_in.weight",
                                                           "wte.weight"};
  for (std::size_t i = 0; i < kEmbeddings.size(); ++i) {
    const auto names = static_cast<HfNames>(i);
    const std::string whole = std::string(prefix(names)) + std::string(kEmbeddings[i]);
    const bool found = std::any_of(tensors.begin(), tensors.end(), [&](const std::string& name) {
      return name == whole || name == kEmbeddings[i];
    });
    if (found) return names;
  }
  return std::nullopt;
}

bool is_constant(HfNames names, std::string_view tensor) {
  if (tensor.ends_with("rotary_emb.inv_freq")) return true;
  const std::string_view attention = names == HfNames::kGpt2 ? ".attn" : ".attention";
  for (const std::string_view mask : {".bias", ".masked_bias"}) {
    if (tensor.ends_with(std::string(attention) + std::string(mask))) return true;
  }
  return false;
}

}  // namespace posenc::pretrained
