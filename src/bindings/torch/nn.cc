#include "posenc/torch/nn.h"

#include "posenc/core/rng.h"
#include "posenc/torch/ops.h"
#include "torch/arguments.h"
#include "torch/dense.h"

namespace posenc::nn {
namespace {

std::string key_rotation(const std::string& text) {
  const auto rotation = cacheable_rotation(parse_any_spec(text));
  return rotation ? to_text(Spec{{*rotation}}) : "";
}

void check_head_dim(const AttentionConfig& config) {
  TORCH_CHECK(config.head_dim > 0 || config.model_dim % config.heads == 0,
              "[Attention] model_dim must be a multiple of heads (", config.heads, ") but got ",
              config.model_dim, "; change one of them, or set head_dim");
}

AttentionConfig completed(AttentionConfig config) {
  TORCH_CHECK(config.model_dim > 0 && config.heads > 0,
              "[Attention] model_dim and heads must be positive but got ", config.model_dim,
              " and ", config.heads);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  check_head_dim(config);
  if (config.head_dim == 0) config.head_dim = config.model_dim / config.heads;
  TORCH_CHECK(config.window_left >= -1,
              "[Attention] window_left must be -1 (no bound) or >= 0 but got ", config.window_left);
  TORCH_CHECK(config.heads % config.kv_heads == 0, "[Attention] kv_heads must divide heads (",
              config.heads, ") but got ", config.kv_heads);
  const Spec spec = parse_any_spec(config.spec);
  require_attention_part("Attention", spec);
  require_causal("Attention", spec, config.causal);
  config.spec = to_text(spec);
  return config;
}

at::Tensor heads_first(const at::Tensor& x, std::int64_t heads, std::int64_t head_dim) {
  return x.reshape({x.size(0), x.size(1), heads, head_dim}).transpose(1, 2);
}
// What a projection's output, [..., channels] of a head, is to attention.
at::Tensor activated(const at::Tensor& x, const InputInfo& info) {
  constexpr double kEpsilon = 1e-6;
  at::Tensor wide = info.float32 && x.scalar_type() != at::kDouble ? x.to(at::kFloat) : x;
  if (info.shift != 0.0) wide = wide + info.shift;
  switch (info.activation) {
    case InputInfo::Activation::kNone:
      return wide;
    case InputInfo::Activation::kLogSigmoid:
      return at::log_sigmoid(wide);
    case InputInfo::Activation::kTwiceSigmoid:
      return 2.0 * at::sigmoid(wide);
    case InputInfo::Activation::kUnitNorm:
      return wide * at::rsqrt(wide.square().sum(-1, true) + kEpsilon);
  }
  return wide;
}
at::Tensor heads_last(const at::Tensor& x) { return x.transpose(1, 2).flatten(2); }

// Appends along the tokens of a buffer that doubles when it is full; returns what is filled.
at::Tensor append(at::Tensor& buffer, std::int64_t length, const at::Tensor& more) {
  const std::int64_t wanted = length + more.size(2);
  if (!buffer.defined() || buffer.size(2) < wanted) {
    const std::int64_t room = std::max<std::int64_t>(2 * wanted, 64);
    at::Tensor larger = at::empty({more.size(0), more.size(1), room, more.size(3)}, more.options());
    if (length > 0) larger.narrow(2, 0, length).copy_(buffer.narrow(2, 0, length));
    buffer = larger;
  }
  buffer.narrow(2, length, more.size(2)).copy_(more);
  return buffer.narrow(2, 0, wanted);
}

at::Tensor learned_vectors(const Learned& encoding, const at::Tensor& table,
                           const at::Tensor& positions, const at::Tensor& x) {
  const bool given = positions.defined() && positions.numel() > 0;
  const std::int64_t least = given ? positions.min().item<std::int64_t>() : 0;
  const std::int64_t most = given                 ? positions.max().item<std::int64_t>()
                            : positions.defined() ? least
                                                  : x.size(1) - 1;
  TORCH_CHECK(least >= 0 && most < encoding.max_positions, "[learned] positions must be in [0, ",
              encoding.max_positions - 1, "] but reach ", most);
  const auto places = at::TensorOptions(x.device()).dtype(at::kLong);
  return torch::embedding(
      table, positions.defined() ? positions.to(places) : at::arange(x.size(1), places));
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * at::rsqrt(x.square().mean(-1, true) + epsilon) * weight;
}

EncodingParametersImpl::EncodingParametersImpl(const std::string& spec, std::int64_t head_dim,
                                               std::int64_t heads, std::int64_t model_dim,
                                               std::uint64_t seed) {
  const Spec parsed = parse_any_spec(spec);
  const ModelShape shape{.head_dim = head_dim, .heads = heads, .model_dim = model_dim};
  validate(parsed, shape);
  Rng rng(seed);
  std::vector<Parameters> values;
  for (const Encoding& e : parsed.encodings) {
    values.push_back(initial_parameters(posenc::parameters(e, shape), rng));
  }
  std::unordered_map<std::string, std::shared_ptr<torch::nn::Module>> modules;
  for (const SpecParameter& p : posenc::parameters(parsed, shape)) {
    const auto dot = p.info.name.find('.');
    const std::string encoding = p.info.name.substr(0, dot);
    const std::string name = p.info.name.substr(dot + 1);
    auto& module = modules[encoding];
    if (module == nullptr) {
      module = register_module(encoding, std::make_shared<torch::nn::Module>());
    }
    const at::Tensor start =
        at::tensor(values[p.encoding][p.index], at::kDouble).reshape(p.info.shape).to(at::kFloat);
    if (p.info.trainable) {
      module->register_parameter(name, start);
    } else {
      module->register_buffer(name, start);
    }
    places_.push_back({module, name, p.info.trainable});
  }
}

const std::vector<at::Tensor>& EncodingParametersImpl::tensors() {
  tensors_.clear();
  for (const Place& place : places_) {
    tensors_.push_back(place.trainable ? place.module->named_parameters(false)[place.name]
                                       : place.module->named_buffers(false)[place.name]);
  }
  return tensors_;
}

AttentionImpl::AttentionImpl(AttentionConfig config, EncodingParameters shared)
    : config_(completed(std::move(config))), rotation_(key_rotation(config_.spec)) {
  const std::int64_t q_dim = config_.heads * config_.head_dim;
  const std::int64_t k_dim = config_.kv_heads * config_.head_dim;
  q_proj = register_module("q_proj", dense_layer(config_.model_dim, q_dim, config_.bias));
  k_proj = register_module("k_proj", dense_layer(config_.model_dim, k_dim, config_.bias));
  v_proj = register_module("v_proj", dense_layer(config_.model_dim, k_dim, config_.bias));
  out_proj = register_module(
      "out_proj", dense_layer(q_dim, config_.model_dim, config_.out_bias.value_or(config_.bias)));
  inputs_ = token_inputs(parse_any_spec(config_.spec),
                         {.head_dim = config_.head_dim, .heads = config_.heads, .model_dim = 0});
  for (const auto& [encoding, info] : inputs_) {
    const std::int64_t dim = info.head_count(config_.heads, config_.kv_heads) * info.channels;
    const bool bias = config_.bias || info.has_bias();
    input_projs.emplace_back(
        register_module(info.projection, dense_layer(config_.model_dim, dim, bias)));
  }
  if (config_.qk_norm) {
    q_norm = register_parameter("q_norm", at::ones({config_.head_dim}));
    k_norm = register_parameter("k_norm", at::ones({config_.head_dim}));
  }
  if (!shared.is_empty()) {
    pos = std::move(shared);
    return;
  }
  pos = register_module("pos", EncodingParameters(config_.spec, config_.head_dim, config_.heads,
                                                  config_.model_dim, config_.seed));
}

at::Tensor AttentionImpl::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const ops::AttentionOptions& options) {
  return ops::attention(q, k, v, config_.spec, pos->tensors(), options);
}

at::Tensor AttentionImpl::split(const at::Tensor& x, std::int64_t heads) const {
  return heads_first(x, heads, config_.head_dim);
}
AttentionImpl::Projected AttentionImpl::project(const at::Tensor& x) const {
  std::vector<torch::nn::Linear> layers = {q_proj, k_proj, v_proj};
  layers.insert(layers.end(), input_projs.begin(), input_projs.end());
  const std::vector<at::Tensor> parts = dense_parts(x, layers);
  Projected p{.q = split(parts[0], config_.heads),
              .k = split(parts[1], config_.kv_heads),
              .v = split(parts[2], config_.kv_heads)};
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const InputInfo& info = inputs_[i].info;
    const std::int64_t heads = info.head_count(config_.heads, config_.kv_heads);
    p.inputs.push_back(activated(heads_first(parts[3 + i], heads, info.channels), info));
  }
  if (q_norm.defined()) p.q = rms_norm(p.q, q_norm, config_.qk_norm_eps);
  if (k_norm.defined()) p.k = rms_norm(p.k, k_norm, config_.qk_norm_eps);
  return p;
}
at::Tensor AttentionImpl::merge(const at::Tensor& out) const { return heads_last(out); }

at::Tensor AttentionImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                                  const at::Tensor& positions, const at::Tensor& query_scale) {
  ops::AttentionOptions options;
  options.causal = config_.causal;
  options.window_left = config_.window_left;
  options.key_mask = key_mask;
  options.q_positions = options.k_positions = positions;
  if (is_training() && config_.dropout > 0.0) {
    options.dropout = config_.dropout;
    options.seed =
        static_cast<std::int64_t>(derived_seed(config_.seed, static_cast<std::uint64_t>(++calls_)));
  }
  Projected p = project(x);
  options.inputs = p.inputs;
  if (query_scale.defined()) p.q = p.q * query_scale.unsqueeze(-1);
  return dense(merge(attend(p.q, p.k, p.v, options)), out_proj);
}

at::Tensor AttentionImpl::forward(const at::Tensor& x, KeyValueCache* cache) {
  if (cache == nullptr) return forward(x);
  TORCH_CHECK(config_.causal, "[Attention] a cache needs causal attention");
  const at::NoGradGuard decoding;
  Projected p = project(x);
  if (!rotation_.empty()) {
    const at::Tensor places = at::arange(cache->length, cache->length + x.size(1), at::kLong);
    p.k = std::get<1>(ops::rope(p.q, p.k, rotation_, {}, places));
  }
  ops::AttentionOptions options;
  options.window_left = config_.window_left;
  options.keys_are_turned = !rotation_.empty();
  const at::Tensor all_keys = append(cache->keys, cache->length, p.k);
  const at::Tensor values = append(cache->values, cache->length, p.v);
  cache->inputs.resize(p.inputs.size());
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    options.inputs.push_back(append(cache->inputs[i], cache->length, p.inputs[i]));
  }
  cache->length += x.size(1);
  const at::Tensor out =
      ops::attention_decode(p.q, all_keys, values, config_.spec, pos->tensors(), options);
  return dense(merge(out), out_proj);
}

LinearAttentionImpl::LinearAttentionImpl(AttentionConfig config, std::string form)
    : config_(completed(std::move(config))), form_(std::move(form)) {
  TORCH_CHECK(config_.window_left == -1,
              "[LinearAttention] does not support windows but got window_left ",
              config_.window_left);
  TORCH_CHECK(!config_.qk_norm,
              "[LinearAttention] does not support qk_norm but got true; "
              "use Attention, or set it to false");
  TORCH_CHECK(config_.dropout == 0.0, "[LinearAttention] does not support dropout but got ",
              config_.dropout);
  const std::int64_t q_dim = config_.heads * config_.head_dim;
  const std::int64_t k_dim = config_.kv_heads * config_.head_dim;
  q_proj = register_module("q_proj", dense_layer(config_.model_dim, q_dim, config_.bias));
  k_proj = register_module("k_proj", dense_layer(config_.model_dim, k_dim, config_.bias));
  v_proj = register_module("v_proj", dense_layer(config_.model_dim, k_dim, config_.bias));
  out_proj = register_module(
      "out_proj", dense_layer(q_dim, config_.model_dim, config_.out_bias.value_or(config_.bias)));
  pos = register_module("pos", EncodingParameters(config_.spec, config_.head_dim, config_.heads,
                                                  config_.model_dim, config_.seed));
}

at::Tensor LinearAttentionImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                                        const at::Tensor& positions) {
  ops::AttentionOptions options;
  options.causal = config_.causal;
  options.key_mask = key_mask;
  options.q_positions = options.k_positions = positions;
  const std::vector<at::Tensor> parts = dense_parts(x, {q_proj, k_proj, v_proj});
  const at::Tensor out =
      ops::linear_attention(heads_first(parts[0], config_.heads, config_.head_dim),
                            heads_first(parts[1], config_.kv_heads, config_.head_dim),
                            heads_first(parts[2], config_.kv_heads, config_.head_dim), config_.spec,
                            pos->tensors(), options, form_);
  return dense(heads_last(out), out_proj);
}

PositionalEmbeddingImpl::PositionalEmbeddingImpl(const std::string& spec, std::int64_t model_dim,
                                                 std::uint64_t seed)
    : spec_(spec), model_dim_(model_dim) {
  require_input_part("PositionalEmbedding", parse_any_spec(spec));
  pos = register_module("pos", EncodingParameters(spec_, model_dim, 1, model_dim, seed));
}

at::Tensor PositionalEmbeddingImpl::forward(const at::Tensor& x, const at::Tensor& positions) {
  TORCH_CHECK(x.dim() == 3 && x.size(2) == model_dim_,
              "[PositionalEmbedding] x must be [batch, tokens, ", model_dim_, "] but got ",
              x.sizes());
  at::Tensor sum = x;
  std::size_t parameter = 0;
  const auto& tensors = pos->tensors();
  const auto add = [&]<class E>([[maybe_unused]] const E& e) {
    if constexpr (std::same_as<E, Learned>) {
      sum = sum + learned_vectors(e, tensors[parameter++], positions, x);
    } else if constexpr (std::same_as<E, Sinusoidal>) {
      sum = sum + sines(to_text(Spec{{e}}), positions, x);
    } else {
      static_assert(E::kTraits.site != Site::kInput,
                    "an encoding of the input without vectors here");
    }
  };
  for (const Encoding& e : parse_any_spec(spec_).encodings) std::visit(add, e);
  return sum;
}

// They are computed on the CPU. A step of training is as long as the last one and asks for the same again.
at::Tensor PositionalEmbeddingImpl::sines(const std::string& spec, const at::Tensor& positions,
                                          const at::Tensor& x) {
  const bool again = !positions.defined() && is_training();
  if (const auto found = kept_.find(spec); again && found != kept_.end()) {
    const at::Tensor& kept = found->second;
    if (kept.size(0) == x.size(1) && kept.device() == x.device() &&
        kept.scalar_type() == x.scalar_type()) {
      return kept;
    }
  }
  const at::Tensor places =
      positions.defined() ? positions.to(at::kLong) : at::arange(x.size(1), at::kLong);
  at::Tensor made = ops::sinusoidal_vectors(places, model_dim_, spec).to(x.options());
  if (again) kept_[spec] = made;
  return made;
}

}  // namespace posenc::nn
