#include "kernels/ref/checks.h"

namespace posenc::ref {
namespace {

void check_encoding(const std::string& scope, const Encoding& encoding, const Parameters& values,
                    const ModelShape& shape) {
  validate(encoding, shape);
  const std::vector<ParameterInfo> infos = parameters(encoding, shape);
  const std::string name(traits(encoding).name);
  if (values.size() != infos.size()) {
    throw Error(ErrorKind::kWrongLength, {.scope = scope,
                                          .key = "parameters of " + name,
                                          .rule = "must be " + std::to_string(infos.size()),
                                          .value = std::to_string(values.size()),
                                          .hint = "initial_parameters makes them"});
  }
  for (std::size_t p = 0; p < infos.size(); ++p) {
    require_size(scope, name + "." + infos[p].name, values[p].size(), infos[p].count(), "");
  }
}

}  // namespace

void require_size(const std::string& scope, const std::string& key, std::size_t size,
                  std::int64_t expected, const std::string& layout) {
  if (size == static_cast<std::size_t>(expected)) return;
  const std::string shape = layout.empty() ? "" : " (" + layout + ")";
  throw Error(ErrorKind::kWrongLength,
              {.scope = scope,
               .key = key,
               .rule = "must have " + std::to_string(expected) + " values" + shape,
               .value = std::to_string(size),
               .hint = ""});
}

void require_at_least(const std::string& scope, const std::string& key, std::int64_t value,
                      std::int64_t least) {
  if (value >= least) return;
  throw Error(ErrorKind::kOutOfRange, {.scope = scope,
                                       .key = key,
                                       .rule = "must be >= " + std::to_string(least),
                                       .value = std::to_string(value),
                                       .hint = ""});
}

void check_shape(const std::string& scope, const AttentionShape& shape) {
  require_at_least(scope, "batch", shape.batch, 0);
  require_at_least(scope, "heads", shape.heads, 1);
  require_at_least(scope, "kv_heads", shape.kv_heads, 1);
  require_at_least(scope, "queries", shape.queries, 0);
  require_at_least(scope, "keys", shape.keys, 0);
  require_at_least(scope, "head_dim", shape.head_dim, 1);
  require_at_least(scope, "value_dim", shape.value_dim, 0);
  if (shape.heads % shape.kv_heads == 0) return;
  throw Error(ErrorKind::kConflict,
              {.scope = scope,
               .key = "kv_heads",
               .rule = "must divide heads (" + std::to_string(shape.heads) + ")",
               .value = std::to_string(shape.kv_heads),
               .hint = ""});
}

void require_plain_rotation(const std::string& scope, const Encoding& encoding) {
  const auto* rope = std::get_if<Rope>(&encoding);
  if (rope == nullptr || rotates_by_position(encoding)) return;
  throw Error(ErrorKind::kUnsupported, {.scope = scope,
                                        .key = rope->values ? "rope.values" : "rope.angles",
                                        .rule = "is not for linear attention yet",
                                        .value = "",
                                        .hint = "rotate queries and keys by positions"});
}

void check_inputs(const std::string& scope, const AttentionShape& shape,
                  const AttentionInputs& inputs, const std::vector<SpecInput>& wanted) {
  require_size(scope, "q", inputs.q.size(), shape.query_size(), "[B, H, Tq, D]");
  require_size(scope, "k", inputs.k.size(), shape.key_size(), "[B, Hkv, Tk, D]");
  require_size(scope, "v", inputs.v.size(), shape.value_size(), "[B, Hkv, Tk, Dv]");
  if (inputs.of_encodings.size() != wanted.size()) {
    throw Error(ErrorKind::kWrongLength,
                {.scope = scope,
                 .key = "inputs",
                 .rule = "must be " + names_of(wanted),
                 .value = std::to_string(inputs.of_encodings.size()) + " tensors",
                 .hint = ""});
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const InputInfo& info = wanted[i].info;
    const bool by_query = info.heads == InputInfo::Heads::kQuery;
    require_size(
        scope, info.name, inputs.of_encodings[i].size(),
        shape.batch * info.head_count(shape.heads, shape.kv_heads) * shape.keys * info.channels,
        by_query ? "[B, H, Tk, channels]" : "[B, Hkv, Tk, channels]");
  }
}

void check_parameters(const std::string& scope, const Spec& spec, const SpecParameters& parameters,
                      const ModelShape& shape, bool (*used)(Site)) {
  if (parameters.size() != spec.encodings.size()) {
    throw Error(ErrorKind::kWrongLength,
                {.scope = scope,
                 .key = "parameters",
                 .rule = "must have one entry per encoding of the spec (" +
                         std::to_string(spec.encodings.size()) + ")",
                 .value = std::to_string(parameters.size()),
                 .hint = "an encoding without parameters has an empty one"});
  }
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    if (used != nullptr && !used(traits(spec.encodings[e]).site)) continue;
    check_encoding(scope, spec.encodings[e], parameters[e], shape);
  }
}

SpecParameters zeros_like(const SpecParameters& parameters) {
  SpecParameters zeros = parameters;
  for (Parameters& encoding : zeros) {
    for (std::vector<double>& values : encoding) values.assign(values.size(), 0.0);
  }
  return zeros;
}

}  // namespace posenc::ref
