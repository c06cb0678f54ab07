// A small transformer for comparing encodings: embedding (with encodings of site 1), blocks of attention and
// a feed-forward part, an output head. Attention is posenc's, with any spec, optionally per layer.
//
//   input       x = token, or sqrt(dim) token + E with sinusoidal positions (Vaswani et al. 2017, section
//               3.4): sines of size one would drown embeddings that start at 1 / sqrt(dim)
//   pre-norm    x = x + part(norm(x)), and a norm before the head
//   parallel    x = x + attention(norm1(x)) + mlp(norm2(x)), as GPT-NeoX has it; pre-norm otherwise
//   post-norm   x = norm(x + part(x))
//
// Names of parameters are stable: embed.weight, input.pos.learned.weight, blocks.0.norm1.weight,
// blocks.0.attention.q_proj.weight, blocks.0.attention.pos.cope.pos_emb, blocks.0.mlp.up.weight,
// norm.weight, head.weight. The initial values of each depend on the seed and its name, so models that
// differ only in their encodings have the same initial values elsewhere.
#pragma once

#include <torch/nn.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "model/row_dropout.h"
#include "posenc/torch/nn.h"
#include "torch/residual_norm.h"

namespace posenc::model {

// What the model must know of its task.
struct ModelContext {
  std::int64_t vocabulary = 0;
  bool causal = true;
  std::int64_t train_length = 0;  // where the logarithm of the length is one
  std::uint64_t seed = 0;
  std::int64_t pad = -1;  // a token that bidirectional attention does not look at; -1: none
  // Ends a document: attention and positions begin again after it (packed_attention.h). -1: none
  std::int64_t separator = -1;
};

// Makes the attention of a layer; a benchmark puts a composition of libtorch's operations here.
using AttentionFactory =
    std::function<std::shared_ptr<nn::AttentionImpl>(nn::AttentionConfig, nn::EncodingParameters)>;

// LayerNorm, or RMSNorm: x / sqrt(mean(x^2) + epsilon) * weight.
class NormalizeImpl : public torch::nn::Module {
 public:
  explicit NormalizeImpl(const config::ModelConfig& config);
  // In the type of x.
  at::Tensor forward(const at::Tensor& x) const;
  // Of x + branch, for products to read, and that sum; an undefined branch is none.
  [[nodiscard]] nn::ResidualNorm add(const at::Tensor& x, const at::Tensor& branch) const;

 private:
  double epsilon_;
  at::Tensor weight_, bias_;  // RMSNorm has no bias
};
TORCH_MODULE(Normalize);

// down(f(up(x))) with GELU, its approximation by tanh, or ReLU; or down(silu(gate(x)) * up(x)).
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const config::ModelConfig& config);
  at::Tensor forward(const at::Tensor& x);

 private:
  torch::nn::Linear up_{nullptr}, gate_{nullptr}, down_{nullptr};
  RowDropout dropout_{nullptr};
  config::Mlp kind_;
};
TORCH_MODULE(Mlp);

// What one block hands to the next: x + branch, not added yet, so that the next norm does it in the same pass. An
// undefined branch is none.
struct Residual {
  at::Tensor x, branch;
};

class BlockImpl : public torch::nn::Module {
 public:
  BlockImpl(const config::ModelConfig& config, nn::Attention softmax,
            nn::LinearAttention linear_attention);
  // key_mask [B, T] is false for padding.
  Residual forward(const Residual& in, const at::Tensor& key_mask, const at::Tensor& positions,
                   const at::Tensor& query_scale);

  // The next tokens of sequences whose earlier ones the cache holds.
  Residual decode(const Residual& in, nn::KeyValueCache& cache);

  nn::Attention attention{nullptr};  // one of the two
  nn::LinearAttention linear{nullptr};

 private:
  // Both halves of the block; `attend` makes the first one's branch.
  template <class Attend>
  Residual run(const Residual& in, const Attend& attend);

  bool post_norm_, parallel_;
  Normalize norm1_{nullptr}, norm2_{nullptr};
  RowDropout dropout_{nullptr};
  Mlp mlp_{nullptr};
};
TORCH_MODULE(Block);

class TransformerImpl : public torch::nn::Module {
 public:
  TransformerImpl(config::ModelConfig config, const ModelContext& context,
                  const AttentionFactory& factory = {});

  // tokens [B, T] of int64; positions [T], 0, 1, ... unless given. Returns [B, T, dim]. Within a
  // model::Interruptible, this and its backward pass throw Interrupted between layers.
  at::Tensor hidden(const at::Tensor& tokens, const at::Tensor& positions = {});
  // The next tokens [B, n] of sequences whose earlier ones the caches hold, one cache per layer: the same values
  // as one pass over all tokens, through the decode kernels and without gradients. An Error where the model cannot
  // (why_not_decoded).
  at::Tensor decode(const at::Tensor& tokens, std::vector<nn::KeyValueCache>& caches);
  // Empty where decode() serves the model, else the field that stands against it.
  [[nodiscard]] std::string why_not_decoded() const;
  // [..., dim] -> [..., vocabulary]
  at::Tensor logits(const at::Tensor& hidden);
  at::Tensor forward(const at::Tensor& tokens, const at::Tensor& positions = {}) {
    return logits(hidden(tokens, positions));
  }

  // All dropout of the next call is a function of this number and the seed.
  void set_step(std::int64_t step);
  // Calls with gradients compute each block twice and keep less (model/recompute.h); the numbers are the same.
  void recompute_blocks(bool on) { recompute_ = on; }

  [[nodiscard]] const config::ModelConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<Block>& blocks() const { return blocks_; }

 private:
  void add_blocks(const AttentionFactory& factory);
  // hidden() of rows that hold several documents, which are kept apart.
  at::Tensor packed_hidden(const at::Tensor& tokens);
  Residual through_blocks(Residual last, const at::Tensor& key_mask, const at::Tensor& positions,
                          const at::Tensor& scale);
  [[nodiscard]] at::Tensor query_scale(std::int64_t tokens) const;
  [[nodiscard]] at::Tensor closing(const Residual& last) const;

  config::ModelConfig config_;
  ModelContext context_;
  bool needs_positions_ = false;  // some layer's scores depend on where tokens stand
  double token_scale_ = 1.0;
  std::shared_ptr<at::Tensor> lengths_;  // of the documents of a call, with a separator
  torch::nn::Embedding embed_{nullptr};
  nn::PositionalEmbedding input_{nullptr};
  RowDropout dropout_{nullptr};
  std::vector<Block> blocks_;
  Normalize norm_{nullptr};
  torch::nn::Linear head_{nullptr};
  at::Tensor log_scale_;  // [heads], for learned_log
  bool recompute_ = false;
  std::int64_t calls_ = 0;  // as attention counts them
};
TORCH_MODULE(Transformer);

// Trainable numbers per part: embedding, positions, attention, mlp, norm, head, and total.
std::map<std::string, std::int64_t> count_parameters(const TransformerImpl& model);

// Is this the name of a parameter of an encoding?
bool is_positional(const std::string& parameter);

}  // namespace posenc::model
