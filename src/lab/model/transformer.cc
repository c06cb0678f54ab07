#include "model/transformer.h"

#include <cmath>

#include "core/cancellation.h"
#include "model/initialise.h"
#include "model/packed_attention.h"
#include "model/recompute.h"
#include "model/token_embedding.h"
#include "posenc/encodings/spec.h"
#include "torch/dense.h"

namespace posenc::model {
namespace {

using config::AttentionKind;
using config::ModelConfig;
using config::ScoreScaling;

bool shares_layers(const std::string& text) {
  for (const Encoding& e : parse_spec(text).encodings) {
    const auto* cope = std::get_if<Cope>(&e);
    if (cope != nullptr && cope->share_layers) return true;
  }
  return false;
}

bool has_sinusoidal(const std::string& text) {
  for (const Encoding& e : parse_spec(text).encodings) {
    if (std::holds_alternative<Sinusoidal>(e)) return true;
  }
  return false;
}

// A bias that only knows what lies before a query would treat all that follows alike.
std::string attention_text(const std::string& text, bool causal) {
  Spec spec = attention_part(parse_spec(text));
  for (Encoding& e : spec.encodings) {
    std::visit(
        [&](auto& encoding) {
          if constexpr (requires { encoding.bidirectional; }) {
            encoding.bidirectional = encoding.bidirectional || !causal;
          }
        },
        e);
  }
  return to_text(spec);
}

// Whether the spec itself gives learned positions their deviation: a parsed one no longer tells a value that
// was written from the default.
bool writes_init_std(const std::string& text) {
  const std::size_t begin = text.find(Learned::kTraits.name);
  if (begin == std::string::npos) return false;
  const std::string fields = text.substr(begin, text.find_first_of(")}+", begin) - begin);
  return fields.find("init_std") != std::string::npos;
}

// Learned positions start on the scale that tokens have here, 1 / sqrt(dim), unless the spec says otherwise.
std::string input_text(const std::string& text, std::int64_t dim) {
  Spec spec = input_part(parse_spec(text));
  for (Encoding& e : spec.encodings) {
    auto* learned = std::get_if<Learned>(&e);
    if (learned == nullptr || writes_init_std(text)) continue;
    learned->init_std = 1.0 / std::sqrt(static_cast<double>(dim));
  }
  return to_text(spec);
}

nn::AttentionConfig attention_config(const ModelConfig& config, const ModelContext& context,
                                     std::int64_t layer) {
  return {.model_dim = config.dim,
          .heads = config.heads,
          .kv_heads = config::kv_heads(config),
          .head_dim = config::head_dim(config),
          .spec = attention_text(config::layer_encoding(config, layer), context.causal),
          .bias = config::qkv_bias(config),
          .out_bias = config::out_bias(config),
          .causal = context.causal,
          .window_left = config.window,
          .qk_norm = config.qk_norm,
          .qk_norm_eps = config::rms_eps(config),
          .dropout = config.attention_dropout,
          .seed = derived_seed(context.seed, static_cast<std::uint64_t>(layer))};
}

// Between layers, forward and backward: what the kernels left out must not be computed with.
void watch_for_stop(const at::Tensor& x) {
  if (cancellation_flag() == nullptr) return;
  throw_if_cancelled();
  if (x.requires_grad()) x.register_hook([](const at::Tensor&) { throw_if_cancelled(); });
}

}  // namespace

NormalizeImpl::NormalizeImpl(const ModelConfig& config)
    : epsilon_(config::norm_eps(config)),
      weight_(register_parameter("weight", at::ones({config.dim}))) {
  if (config.norm_kind != config::NormKind::kLayer) return;
  bias_ = register_parameter("bias", at::zeros({config.dim}));
}

at::Tensor NormalizeImpl::forward(const at::Tensor& x) const {
  return bias_.defined() ? at::layer_norm(x, weight_.sizes(), weight_, bias_, epsilon_)
                         : nn::rms_norm(x, weight_, epsilon_);
}

nn::ResidualNorm NormalizeImpl::add(const at::Tensor& x, const at::Tensor& branch) const {
  if (bias_.defined()) return nn::residual_norm(x, branch, weight_, bias_, epsilon_);
  const at::Tensor sum = branch.defined() ? x + branch : x;
  return {sum, forward(sum)};
}

MlpImpl::MlpImpl(const ModelConfig& config) : kind_(config.mlp) {
  const std::int64_t width = config::mlp_width(config);
  const bool bias = config::mlp_bias(config);
  up_ = register_module("up", nn::dense_layer(config.dim, width, bias));
  if (config.mlp == config::Mlp::kSwiglu) {
    gate_ = register_module("gate", nn::dense_layer(config.dim, width, bias));
  }
  down_ = register_module("down", nn::dense_layer(width, config.dim, bias));
  dropout_ = register_module("dropout", RowDropout(config.mlp_dropout));
}

namespace {

at::Tensor activated(const at::Tensor& x, config::Mlp kind) {
  if (kind == config::Mlp::kRelu) return at::relu(x);
  return kind == config::Mlp::kGeluTanh ? at::gelu(x, "tanh") : at::gelu(x);
}

}  // namespace

at::Tensor MlpImpl::forward(const at::Tensor& x) {
  if (!gate_.is_empty()) {
    const std::vector<at::Tensor> parts = nn::dense_parts(x, {gate_, up_});
    return nn::dense(dropout_(at::silu(parts[0]) * parts[1]), down_);
  }
  return nn::dense(dropout_(activated(nn::dense(x, up_), kind_)), down_);
}

BlockImpl::BlockImpl(const ModelConfig& config, nn::Attention softmax,
                     nn::LinearAttention linear_attention)
    : attention(std::move(softmax)),
      linear(std::move(linear_attention)),
      post_norm_(config.norm == config::Norm::kPost),
      parallel_(config.parallel) {
  norm1_ = register_module("norm1", Normalize(config));
  if (!attention.is_empty()) register_module("attention", attention);
  if (!linear.is_empty()) register_module("attention", linear);
  norm2_ = register_module("norm2", Normalize(config));
  mlp_ = register_module("mlp", Mlp(config));
  dropout_ = register_module("dropout", RowDropout(config.dropout));
}

template <class Attend>
Residual BlockImpl::run(const Residual& in, const Attend& attend) {
  if (post_norm_) {
    const at::Tensor y = norm1_(in.x + dropout_(attend(in.x)));
    return {norm2_(y + dropout_(mlp_(y))), {}};
  }
  const auto [x, normalized] = norm1_->add(in.x, in.branch);
  if (parallel_) return {x + dropout_(attend(normalized)), dropout_(mlp_(norm2_(x)))};
  const auto [y, again] = norm2_->add(x, dropout_(attend(normalized)));
  return {y, dropout_(mlp_(again))};
}

Residual BlockImpl::forward(const Residual& in, const at::Tensor& key_mask,
                            const at::Tensor& positions, const at::Tensor& query_scale) {
  return run(in, [&](const at::Tensor& x) {
    return linear.is_empty() ? attention->forward(x, key_mask, positions, query_scale)
                             : linear->forward(x, key_mask, positions);
  });
}

Residual BlockImpl::decode(const Residual& in, nn::KeyValueCache& cache) {
  return run(in, [&](const at::Tensor& x) { return attention->forward(x, &cache); });
}

TransformerImpl::TransformerImpl(ModelConfig config, const ModelContext& context,
                                 const AttentionFactory& factory)
    : config_(std::move(config)), context_(context) {
  embed_ = register_module("embed", torch::nn::Embedding(context.vocabulary, config_.dim));
  const Spec input = input_part(parse_spec(config_.encoding.front()));
  if (!input.encodings.empty()) {
    input_ = register_module(
        "input", nn::PositionalEmbedding(input_text(config_.encoding.front(), config_.dim),
                                         config_.dim, context.seed));
  }
  if (has_sinusoidal(config_.encoding.front())) {
    token_scale_ = std::sqrt(static_cast<double>(config_.dim));
  }
  dropout_ = register_module("dropout", RowDropout(config_.dropout));
  add_blocks(factory);
  if (config_.norm == config::Norm::kPre) {
    norm_ = register_module("norm", Normalize(config_));
  }
  if (!config_.tied) {
    head_ = register_module("head", nn::dense_layer(config_.dim, context.vocabulary, false));
  }
  if (config_.score_scaling == ScoreScaling::kLearnedLog) {
    const double start =
        1.0 / std::log(static_cast<double>(std::max<std::int64_t>(context.train_length, 2)));
    log_scale_ = register_parameter("log_scale", at::full({config_.heads}, start));
  }
  initialise(*this, context.seed, config_.layers);
}

void TransformerImpl::add_blocks(const AttentionFactory& factory) {
  nn::EncodingParameters shared{nullptr};
  if (context_.separator >= 0 && !factory) lengths_ = std::make_shared<at::Tensor>();
  auto blocks = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    const std::string& spec = config::layer_encoding(config_, layer);
    const nn::AttentionConfig attention = attention_config(config_, context_, layer);
    needs_positions_ = needs_positions_ || attention.spec != "none";
    nn::Attention softmax{nullptr};
    nn::LinearAttention linear{nullptr};
    if (config_.attention == AttentionKind::kLinear) {
      linear = nn::LinearAttention(attention, config_.linear_form);
    } else {
      const nn::EncodingParameters own{nullptr};
      const auto& parameters = shares_layers(spec) ? shared : own;
      if (factory) {
        softmax = nn::Attention(factory(attention, parameters));
      } else if (lengths_ != nullptr) {
        softmax = nn::Attention(std::shared_ptr<nn::AttentionImpl>(
            std::make_shared<PackedAttentionImpl>(attention, parameters, lengths_)));
      } else {
        softmax = nn::Attention(attention, parameters);
      }
      if (shares_layers(spec) && shared.is_empty()) shared = softmax->pos;
    }
    blocks_.emplace_back(config_, softmax, linear);
    blocks->push_back(blocks_.back());
  }
}

at::Tensor TransformerImpl::query_scale(std::int64_t tokens) const {
  if (config_.score_scaling == ScoreScaling::kNone) return {};
  const auto options = at::TensorOptions().device(embed_->weight.device());
  // A query of an encoder sees every token.
  const at::Tensor keys =
      context_.causal ? at::arange(1, tokens + 1, options.dtype(at::kFloat))
                      : at::full({tokens}, static_cast<double>(tokens), options.dtype(at::kFloat));
  const at::Tensor seen = keys.clamp_min(2).log();
  if (log_scale_.defined()) return log_scale_.unsqueeze(1) * seen;
  return seen / std::log(static_cast<double>(std::max<std::int64_t>(context_.train_length, 2)));
}

Residual TransformerImpl::through_blocks(Residual last, const at::Tensor& key_mask,
                                         const at::Tensor& positions, const at::Tensor& scale) {
  const bool recompute = recompute_ && at::GradMode::is_enabled();
  for (Block& block : blocks_) {
    last = recompute ? recomputed(block, last, key_mask, positions, scale, calls_)
                     : block->forward(last, key_mask, positions, scale);
    watch_for_stop(last.x);
  }
  ++calls_;
  return last;
}

at::Tensor TransformerImpl::packed_hidden(const at::Tensor& tokens) {
  const PackedDocuments documents = packed_documents(tokens, context_.separator);
  *lengths_ = documents.lengths;
  at::Tensor x = embed_tokens(embed_->weight, tokens);
  if (token_scale_ != 1.0) x = x * token_scale_;
  if (!input_.is_empty()) x = input_->forward(x, documents.positions.to(tokens.device()));
  Residual last{dropout_(x).reshape({1, tokens.numel(), config_.dim}), {}};
  BatchRows::Range rows = BatchRows::current();
  rows.joined = tokens.size(0);
  const BatchRows joined(rows);
  last = through_blocks(last, {}, {}, {});
  return closing(last).reshape({tokens.size(0), tokens.size(1), config_.dim});
}

at::Tensor TransformerImpl::hidden(const at::Tensor& tokens, const at::Tensor& positions) {
  if (lengths_ != nullptr) {
    TORCH_CHECK(!positions.defined(),
                "[transformer] positions cannot be given for packed documents");
    return packed_hidden(tokens);
  }
  at::Tensor x = embed_tokens(embed_->weight, tokens);
  if (token_scale_ != 1.0) x = x * token_scale_;
  if (!input_.is_empty()) x = input_->forward(x, positions);
  x = dropout_(x);
  const at::Tensor scale = query_scale(tokens.size(1));
  const at::Tensor places = needs_positions_ ? positions : at::Tensor();
  const bool padded = context_.pad >= 0 && !context_.causal;
  const at::Tensor key_mask = padded ? tokens.ne(context_.pad) : at::Tensor();
  return closing(through_blocks({x, {}}, key_mask, places, scale));
}

at::Tensor TransformerImpl::closing(const Residual& last) const {
  return norm_.is_empty() ? last.x : norm_->add(last.x, last.branch).normalized;
}

std::string TransformerImpl::why_not_decoded() const {
  if (!context_.causal) return "the model is bidirectional";
  if (config_.attention == AttentionKind::kLinear) return "model.attention is linear";
  if (config_.score_scaling != ScoreScaling::kNone) return "model.score_scaling is not none";
  return "";
}

at::Tensor TransformerImpl::decode(const at::Tensor& tokens,
                                   std::vector<nn::KeyValueCache>& caches) {
  const std::string why = why_not_decoded();
  TORCH_CHECK(why.empty(), "[decode] ", why);
  const at::NoGradGuard quiet;
  caches.resize(blocks_.size());
  const std::int64_t before = caches.front().length;
  at::Tensor x = embed_tokens(embed_->weight, tokens);
  if (token_scale_ != 1.0) x = x * token_scale_;
  if (!input_.is_empty()) {
    const auto options = at::TensorOptions().dtype(at::kLong).device(tokens.device());
    x = input_->forward(x, at::arange(before, before + tokens.size(1), options));
  }
  Residual last{x, {}};
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    last = blocks_[layer]->decode(last, caches[layer]);
    watch_for_stop(last.x);
  }
  return closing(last);
}

at::Tensor TransformerImpl::logits(const at::Tensor& hidden) {
  return nn::dense(hidden, head_.is_empty() ? embed_->weight : head_->weight);
}

void TransformerImpl::set_step(std::int64_t step) {
  calls_ = step;
  for (Block& block : blocks_) {
    if (!block->attention.is_empty()) block->attention->set_calls(step);
  }
}

bool is_positional(const std::string& parameter) {
  return parameter.find(".pos.") != std::string::npos;
}

std::map<std::string, std::int64_t> count_parameters(const TransformerImpl& model) {
  std::map<std::string, std::int64_t> counts;
  for (const char* part : {"embedding", "positions", "attention", "mlp", "norm", "head", "total"}) {
    counts[part] = 0;
  }
  for (const auto& item : model.named_parameters()) {
    const std::string& name = item.key();
    const auto part = [&]() -> std::string {
      if (is_positional(name)) return "positions";
      if (name.find("embed.") == 0) return "embedding";
      if (name.find("norm") != std::string::npos) return "norm";
      if (name.find("mlp") != std::string::npos) return "mlp";
      return name.find("head.") == 0 ? "head" : "attention";
    };
    counts[part()] += item.value().numel();
    counts["total"] += item.value().numel();
  }
  return counts;
}

}  // namespace posenc::model
