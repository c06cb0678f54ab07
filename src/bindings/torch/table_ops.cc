// Tables, what a spec holds, and looks inside: everything that is read rather than trained through.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/last_error.h"
#include "encodings/catalog_json.h"
#include "kernels/path_trace.h"
#include "posenc/core/version.h"
#include "posenc/encodings/hf_config.h"
#include "torch/attention_arguments.h"
#include "torch/call_capability.h"
#include "torch/register.h"

namespace posenc::ops {
namespace {

at::Tensor from_doubles(const std::vector<double>& values, std::vector<std::int64_t> shape) {
  return at::tensor(values, at::kDouble).reshape(shape);
}

template <class Encoding>
Encoding only(const char* op, const std::string& text) {
  const Spec spec = parse_any_spec(text);
  const bool fits =
      spec.encodings.size() == 1 && std::holds_alternative<Encoding>(spec.encodings[0]);
  TORCH_CHECK(fits, "[", op, "] spec must be one ", Encoding::kTraits.name, " but got ",
              to_text(spec));
  return std::get<Encoding>(spec.encodings[0]);
}

at::Tensor alibi_slopes_op(std::int64_t heads, std::string spec) {
  const auto alibi = only<Alibi>("alibi_slopes", spec);
  return from_doubles(alibi_slopes(alibi, heads), {heads});
}

at::Tensor t5_buckets_cpu(const at::Tensor& relative, std::string spec) {
  TORCH_CHECK(at::isIntegralType(relative.scalar_type(), false),
              "[t5_buckets] relative must be whole numbers but got ", relative.scalar_type());
  const auto t5 = only<T5>("t5_buckets", spec);
  at::Tensor out = relative.to(at::kLong).contiguous().clone();
  auto* at = out.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < out.numel(); ++i) at[i] = t5_bucket(t5, at[i]);
  return out;
}
// E(n) for each position, float64 [..., model_dim].
at::Tensor sinusoidal_cpu(const at::Tensor& positions, std::int64_t model_dim, std::string spec) {
  TORCH_CHECK(at::isIntegralType(positions.scalar_type(), false),
              "[sinusoidal_vectors] positions must be whole numbers but got ",
              positions.scalar_type());
  const auto config = only<Sinusoidal>("sinusoidal_vectors", spec);
  validate(config, {.head_dim = model_dim, .heads = 1, .model_dim = model_dim});
  const auto frequencies = sinusoidal_frequencies(config, model_dim);
  const at::Tensor flat = positions.to(at::kLong).contiguous();
  if (flat.numel() > 0) range_of("sinusoidal_vectors", "positions", flat);
  std::vector<std::int64_t> shape = positions.sizes().vec();
  shape.push_back(model_dim);
  at::Tensor out = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    embedding(config, frequencies, flat.data_ptr<std::int64_t>()[i],
              {out.data_ptr<double>() + i * model_dim, static_cast<std::size_t>(model_dim)});
  }
  return out;
}
// cos and sin [groups, length, pairs] in float64, of queries, magnitude included.
std::tuple<at::Tensor, at::Tensor> rope_tables_op(std::string spec, std::int64_t head_dim,
                                                  std::int64_t heads, std::int64_t length) {
  TORCH_CHECK(length >= 0, "[rope_tables] length must not be negative but got ", length);
  const Rope rope = only<Rope>("rope_tables", spec);
  const Rotary rotary = make_rotary(rope, {.head_dim = head_dim, .heads = heads},
                                    {std::max<std::int64_t>(length, 1)});
  const at::Tensor cos = at::empty({rotary.groups(), length, rotary.pairs()}, at::kDouble);
  const at::Tensor sin = at::empty_like(cos);
  auto* c = cos.data_ptr<double>();
  auto* s = sin.data_ptr<double>();
  for (std::int64_t g = 0; g < rotary.groups(); ++g) {
    for (std::int64_t n = 0; n < length; ++n) {
      for (std::int64_t p = 0; p < rotary.pairs(); ++p) {
        const CosSin entry = rotary_entry(rotary, Role::kQuery, g, p, n);
        *c++ = entry.cos;
        *s++ = entry.sin;
      }
    }
  }
  return {cos, sin};
}

// Weights [B, H, Tq, Tk] and, with CoPE, the positions of its first (else empty), from the reference.
std::tuple<at::Tensor, at::Tensor> inside_cpu(const at::Tensor& q, const at::Tensor& k,
                                              const at::Tensor& v, const at::Tensor& parameters,
                                              POSENC_ATTENTION_PARAMETERS) {
  const AttentionArguments a(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  const ExactInputs exact(a);
  ref::AttentionOptions options = a.ref_options();
  options.keep_weights = true;
  options.keep_cope_positions = true;
  const auto result =
      ref::attention(a.prepared->spec, a.values, a.ref_shape(), exact.inputs(), options);
  const std::vector<std::int64_t> shape = {q.size(0), q.size(1), q.size(2), k.size(2)};
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor positions = result.cope_positions.empty()
                                   ? at::empty({0}, at::kDouble)
                                   : from_doubles(result.cope_positions[0], shape);
  return {from_doubles(result.weights, shape).to(type), positions.to(type)};
}

std::string_view site_name(Site site) { return enum_name(site); }

std::string_view activation_name(InputInfo::Activation activation) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "log_sigmoid", "twice_sigmoid",
                                                      "unit_norm"};
  return kNames[static_cast<std::size_t>(activation)];
}

// Every name that a spec may use, with its fields.
std::string catalog_op() { return catalog_json().dump(); }

std::string spec_at_length_op(std::string spec, std::int64_t length) {
  TORCH_CHECK(length >= 0, "[spec_at_length] length must not be negative but got ", length);
  return to_text(at_length(parse_any_spec(spec), {.sequence = length, .context = 0}));
}

// What Python must know of a spec: its forms, and its parameters for a shape.
// `part`: "attention" or "input", where the spec must be for that alone.
std::string spec_info_op(std::string spec, std::int64_t head_dim, std::int64_t heads,
                         std::int64_t model_dim, std::string part) {
  const Spec parsed = parse_any_spec(spec);
  if (part == "attention") require_attention_part("attention", parsed);
  if (part == "input") require_input_part("PositionalEmbedding", parsed);
  nlohmann::ordered_json info = {{"text", to_text(parsed)},
                                 {"json", nlohmann::json::parse(to_json(parsed))},
                                 {"yaml", to_yaml(parsed)},
                                 {"hash", hash(parsed)},
                                 {"encodings", nlohmann::json::array()},
                                 {"cacheable_rotation", ""},
                                 {"needs_causal", chain_of(parsed).has_value()},
                                 {"parameters", nlohmann::json::array()},
                                 {"inputs", nlohmann::json::array()}};
  if (const auto rotation = cacheable_rotation(parsed)) {
    info["cacheable_rotation"] = to_text(Spec{{*rotation}});
  }
  for (const Encoding& e : parsed.encodings) {
    info["encodings"].push_back({{"name", traits(e).name},
                                 {"site", site_name(traits(e).site)},
                                 {"relative", traits(e).relative},
                                 {"per_token", token_form(e, 1.0).has_value()},
                                 {"follows_length", follows_length(e)}});
  }
  if (heads <= 0) return info.dump();
  const ModelShape shape{.head_dim = head_dim, .heads = heads, .model_dim = model_dim};
  validate(parsed, shape);
  for (const SpecParameter& p : parameters(parsed, shape)) {
    info["parameters"].push_back({{"name", p.info.name},
                                  {"shape", p.info.shape},
                                  {"trainable", p.info.trainable},
                                  {"site", site_name(traits(parsed.encodings[p.encoding]).site)}});
  }
  for (const SpecInput& i : token_inputs(parsed, shape)) {
    info["inputs"].push_back(
        {{"name", i.info.name},
         {"by_query_head", i.info.heads == InputInfo::Heads::kQuery},
         {"channels", i.info.channels},
         {"float32", i.info.float32},
         {"log_sigmoid", i.info.activation == InputInfo::Activation::kLogSigmoid},
         {"activation", activation_name(i.info.activation)},
         {"shift", i.info.shift},
         {"has_bias", i.info.has_bias()},
         {"projection", i.info.projection}});
  }
  return info.dump();
}

// The specs of a Hugging Face model's layers, from its config.json.
std::string hf_specs_op(std::string config, std::string precision) {
  TORCH_CHECK(precision == "hf" || precision == "exact",
              "[hf_specs] precision must be hf or exact but got '", precision, "'");
  const HfModel model = parse_hf_config(config);
  nlohmann::ordered_json info = {{"model_type", model.model_type},
                                 {"kv_heads", model.kv_heads},
                                 {"layers", nlohmann::json::array()}};
  for (const HfLayer& layer : model.layers) {
    const Spec spec = precision == "hf" ? with_precision(layer.spec, Precision::kHf) : layer.spec;
    info["layers"].push_back(
        {{"type", layer.type},
         {"spec", to_text(spec)},
         {"head_dim", layer.shape.head_dim},
         {"heads", layer.shape.heads},
         {"scale", layer.scale ? nlohmann::json(*layer.scale) : nlohmann::json()}});
  }
  return info.dump();
}

std::vector<at::Tensor> initial_parameters_op(std::string spec, std::int64_t head_dim,
                                              std::int64_t heads, std::int64_t model_dim,
                                              std::int64_t seed) {
  const Spec parsed = parse_any_spec(spec);
  const ModelShape shape{.head_dim = head_dim, .heads = heads, .model_dim = model_dim};
  validate(parsed, shape);
  Rng rng(static_cast<std::uint64_t>(seed));
  std::vector<Parameters> values;
  for (const Encoding& e : parsed.encodings) {
    values.push_back(initial_parameters(parameters(e, shape), rng));
  }
  std::vector<at::Tensor> tensors;
  for (const SpecParameter& p : parameters(parsed, shape)) {
    tensors.push_back(from_doubles(values[p.encoding][p.index], p.info.shape).to(at::kFloat));
  }
  return tensors;
}

at::ScalarType type_named(const std::string& name) {
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  if (name == "float64") return at::kDouble;
  TORCH_CHECK(name == "float32",
              "[explain] dtype must be float32, bfloat16, float16 or float64 but got '", name, "'");
  return at::kFloat;
}

std::string explain_op(std::string spec, std::int64_t batch, std::int64_t heads,
                       std::int64_t kv_heads, std::int64_t queries, std::int64_t keys,
                       std::int64_t head_dim, std::string device, std::string dtype, bool paged,
                       std::int64_t value_dim) {
  const bool cuda = device == "cuda" || device.rfind("cuda:", 0) == 0;
  TORCH_CHECK(cuda || device == "cpu", "[explain] device must be cpu or cuda but got '", device,
              "'");
  const AttentionShapes shapes{batch,    heads, kv_heads, queries,  keys,
                               head_dim, false, paged,    value_dim};
  return to_string(call_capability(spec, shapes, cuda, type_named(dtype)));
}

std::string slow_path_op(std::string spec, const at::Tensor& q, const at::Tensor& k,
                         const at::Tensor& v, bool explicit_positions) {
  return slow_path(spec, q, k, v, explicit_positions);
}

std::string last_path_op(bool backward) {
  return path_name(backward ? path_trace().backward : path_trace().forward);
}

std::string version_op() { return POSENC_VERSION_STRING; }

std::string error_parts_op(std::string message) {
  const auto& last = last_error();
  if (!last || message.find(last->what()) == std::string::npos) return "";
  return nlohmann::json{{"kind", error_kind_name(last->kind())},
                        {"scope", last->scope()},
                        {"key", last->key()},
                        {"rule", last->rule()},
                        {"value", last->value()},
                        {"hint", last->hint()}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

POSENC_KERNELS(CPU, m) {
  m.impl("t5_buckets", POSENC_KERNEL(t5_buckets_cpu));
  m.impl("sinusoidal_vectors", POSENC_KERNEL(sinusoidal_cpu));
  m.impl("_attention_inside", POSENC_KERNEL(inside_cpu));
}
POSENC_KERNELS(CompositeImplicitAutograd, m) {
  m.impl("alibi_slopes", POSENC_KERNEL(alibi_slopes_op));
  m.impl("rope_tables", POSENC_KERNEL(rope_tables_op));
  m.impl("catalog", POSENC_KERNEL(catalog_op));
  m.impl("spec_at_length", POSENC_KERNEL(spec_at_length_op));
  m.impl("spec_info", POSENC_KERNEL(spec_info_op));
  m.impl("hf_specs", POSENC_KERNEL(hf_specs_op));
  m.impl("initial_parameters", POSENC_KERNEL(initial_parameters_op));
  m.impl("explain", POSENC_KERNEL(explain_op));
  m.impl("_slow_path", POSENC_KERNEL(slow_path_op));
  m.impl("_last_path", POSENC_KERNEL(last_path_op));
  m.impl("version", POSENC_KERNEL(version_op));
  m.impl("_error_parts", POSENC_KERNEL(error_parts_op));
}

}  // namespace posenc::ops
