// Modules for libtorch: attention with any spec and a key/value cache, linear attention, and positional
// embeddings (site 1). Parameters of the encodings are registered as pos.<encoding>.<parameter>, for
// example pos.alibi.slopes and pos.cope.pos_emb; constants are buffers.
//
//   posenc::nn::Attention attention(
//       posenc::nn::AttentionConfig{
//           .model_dim = 512, .heads = 8, .spec = "rope + cope", .causal = true});
//   auto y = attention->forward(x);                              // x, y [B, T, model_dim]
//
//   posenc::nn::KeyValueCache cache;                             // decoding, without gradients
//   auto prompt_out = attention->forward(prompt, &cache);
//   auto next_out = attention->forward(token, &cache);
#pragma once

// With clang and C++20, the headers of PyTorch 1.13 only compile in this order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <torch/nn.h>
// clang-format on

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "posenc/encodings/spec.h"
#include "posenc/torch/ops.h"

namespace posenc::nn {

// The parameters of a spec for a shape, in the order that the operators expect.
class EncodingParametersImpl : public torch::nn::Module {
 public:
  EncodingParametersImpl(const std::string& spec, std::int64_t head_dim, std::int64_t heads,
                         std::int64_t model_dim = 0, std::uint64_t seed = 0);
  [[nodiscard]] const std::vector<at::Tensor>& tensors();

 private:
  struct Place {
    std::shared_ptr<torch::nn::Module> module;
    std::string name;
    bool trainable;
  };
  std::vector<Place> places_;
  std::vector<at::Tensor> tensors_;  // looked up again at each call, because to() replaces them
};
TORCH_MODULE(EncodingParameters);

// x / sqrt(mean of x^2 over the last dimension + epsilon) * weight (Zhang and Sennrich 2019, arXiv 1910.07467).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon = 1e-6);

struct AttentionConfig {
  std::int64_t model_dim = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;          // 0: as many as heads
  std::int64_t head_dim = 0;          // 0: model_dim / heads, which must divide
  std::string spec = "none";          // sites 2 to 5; for site 1 use PositionalEmbedding
  bool bias = false;                  // of the projections
  std::optional<bool> out_bias = {};  // of the output projection, if different (Qwen 2 has none)
  bool causal = false;                // required for a cache
  std::int64_t window_left = -1;
  bool qk_norm = false;  // RMSNorm of queries and keys over head_dim, before any rotation
  double qk_norm_eps = 1e-6;
  double dropout = 0.0;    // of the attention weights, in training mode
  std::uint64_t seed = 0;  // of the encodings' initial values and of dropout
};

// Keys and values of the tokens so far, [B, Hkv, length, head_dim] as views of larger buffers. Keys are
// stored rotated if the spec has a single constant rotation (posenc::cacheable_rotation), else unrotated.
// Either way a call returns the last rows of a full pass over all tokens so far, even if the rotation
// depends on the length. Use one cache per module, and a new one for each sequence.
struct KeyValueCache {
  std::int64_t length = 0;
  at::Tensor keys, values;
  std::vector<at::Tensor> inputs;  // of the encodings
};

class AttentionImpl : public torch::nn::Module {
 public:
  // `shared`: parameters of the encodings, owned by another module, for cope(share_layers=true).
  explicit AttentionImpl(AttentionConfig config, EncodingParameters shared = nullptr);

  // x [B, T, model_dim]. key_mask [B, T] is false for padding. positions [T] or [B, T] default to 0, 1, ...
  // (or continue from the cache). query_scale [T] or [heads, T] multiplies the queries, for example by a
  // temperature that depends on the position.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& positions = {}, const at::Tensor& query_scale = {});
  at::Tensor forward(const at::Tensor& x, KeyValueCache* cache);

  [[nodiscard]] const AttentionConfig& config() const { return config_; }
  // Dropout is a function of the config's seed and the number of calls: set it after loading a
  // checkpoint to continue with the same random numbers.
  void set_calls(std::int64_t calls) { calls_ = calls; }

  torch::nn::Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, out_proj{nullptr};
  std::vector<torch::nn::Linear> input_projs;  // for the encodings' inputs (posenc::token_inputs)
  at::Tensor q_norm, k_norm;                   // [head_dim], with qk_norm
  EncodingParameters pos{nullptr};

 protected:
  // The attention between the projections: ops::attention, unless a subclass overrides it.
  virtual at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const ops::AttentionOptions& options);

 private:
  // [B, T, heads * head_dim] -> [B, heads, T, head_dim], without a copy.
  [[nodiscard]] at::Tensor split(const at::Tensor& x, std::int64_t heads) const;
  struct Projected {
    at::Tensor q, k, v;
    std::vector<at::Tensor> inputs;
  };
  [[nodiscard]] Projected project(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor merge(const at::Tensor& out) const;

  AttentionConfig config_;
  std::vector<SpecInput> inputs_;
  std::string rotation_;    // of keys in a cache; empty if they are stored unrotated
  std::int64_t calls_ = 0;  // seeds dropout together with config_.seed
};
TORCH_MODULE(Attention);

class LinearAttentionImpl : public torch::nn::Module {
 public:
  // form: elu, relu or cosine (posenc/torch/ops.h). Windows, dropout and qk_norm are not supported.
  explicit LinearAttentionImpl(AttentionConfig config, std::string form = "elu");
  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& positions = {});

  torch::nn::Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, out_proj{nullptr};
  EncodingParameters pos{nullptr};

 private:
  AttentionConfig config_;
  std::string form_;
};
TORCH_MODULE(LinearAttention);

// Adds the spec's encodings to x. They must be of site 1 (posenc::input_part of a model's spec).
class PositionalEmbeddingImpl : public torch::nn::Module {
 public:
  PositionalEmbeddingImpl(const std::string& spec, std::int64_t model_dim, std::uint64_t seed = 0);
  // x [B, T, model_dim]; positions [T] or [B, T], default 0, 1, ...
  at::Tensor forward(const at::Tensor& x, const at::Tensor& positions = {});

  EncodingParameters pos{nullptr};

 private:
  at::Tensor sines(const std::string& spec, const at::Tensor& positions, const at::Tensor& x);

  std::string spec_;
  std::int64_t model_dim_;
  // Sinusoids of positions 0, 1, ... by spec, reused between training steps.
  std::map<std::string, at::Tensor> kept_;
};
TORCH_MODULE(PositionalEmbedding);

}  // namespace posenc::nn

// SPDX-License-Identifier: MIT
