#include "posenc/encodings/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/bind.h"
#include "core/strings.h"
#include "encodings/other_names.h"
#include "encodings/spec_text.h"
#include "encodings/spec_tree.h"
#include "posenc/core/error.h"

namespace posenc {
namespace {

template <class... Configs>
std::variant<Configs...> bind_encoding(const Value& term, const std::variant<Configs...>* tag) {
  const FieldRule rule;
  const FieldContext context{"spec", "encoding", rule};
  const NamedArguments named = read_named(term, "spec", "encoding");
  refuse_other_name(Value::of_string(named.name, named.mark), context, alternative_names(tag));
  return bind_alternative<Configs...>(named, context);
}

// Names that occur again get a number: alibi, alibi_2.
class Numbered {
 public:
  std::string next(std::string_view name) {
    const int number = ++seen_[std::string(name)];
    return number == 1 ? std::string(name) : fmt::format("{}_{}", name, number);
  }

 private:
  std::map<std::string, int> seen_;
};

// Encodings of the input, or all others.
Spec part_of(const Spec& spec, bool input) {
  Spec part;
  for (const Encoding& encoding : spec.encodings) {
    if ((traits(encoding).site == Site::kInput) == input) part.encodings.push_back(encoding);
  }
  return part;
}

void refuse(std::string_view scope, const Spec& ignored, std::string rule, std::string hint) {
  if (ignored.encodings.empty()) return;
  throw Error(ErrorKind::kConflict, {.scope = std::string(scope),
                                     .key = "spec",
                                     .rule = std::move(rule),
                                     .value = to_text(ignored),
                                     .hint = std::move(hint)});
}

// Stick-breaking takes the place of the softmax.
void require_one_normaliser(const Spec& spec) {
  Spec normalisers;
  bool breaks = false;
  for (const Encoding& e : spec.encodings) {
    const bool stick = std::holds_alternative<StickBreaking>(e);
    breaks = breaks || stick;
    if (stick || std::holds_alternative<Sink>(e)) normalisers.encodings.push_back(e);
  }
  if (!breaks || normalisers.encodings.size() == 1) return;
  throw Error(ErrorKind::kConflict,
              {.scope = "stick_breaking",
               .key = "spec",
               .rule = "must have stick_breaking once and no sink",
               .value = to_text(normalisers),
               .hint = "a sink needs a softmax, and stick-breaking has none"});
}

// A chain takes the place of the product of query and key, which rotations are made for.
void require_one_product(const Spec& spec) {
  const std::optional<std::size_t> chain = chain_of(spec);
  if (!chain) return;
  const std::string name(traits(spec.encodings[*chain]).name);
  Spec products;
  for (const Encoding& e : spec.encodings) {
    if (is_chain(e) || is_rotary(e)) products.encodings.push_back(e);
  }
  if (products.encodings.size() == 1) return;
  throw Error(ErrorKind::kConflict, {.scope = name,
                                     .key = "spec",
                                     .rule = "must have one of path and wall, and no rotation,",
                                     .value = to_text(products),
                                     .hint = "rotations do not commute with the steps of " + name +
                                             ": scores would depend on absolute positions"});
}

}  // namespace

Spec bind_spec(const Value& value) {
  if (const auto* text = value.get_if<std::string>()) return bind_spec(parse_spec_text(*text));
  const auto* list = value.get_if<Value::List>();
  const Value::List terms = list != nullptr ? *list : Value::List{value};
  Spec spec;
  for (const Value& term : terms) {
    Encoding encoding = bind_encoding(term, static_cast<const Encoding*>(nullptr));
    if (!std::holds_alternative<None>(encoding)) spec.encodings.push_back(std::move(encoding));
  }
  return spec;
}

Value canonical_tree(const Spec& spec) {
  Value::List terms;
  for (const Encoding& encoding : spec.encodings) terms.push_back(write_field(encoding));
  if (terms.empty()) terms.push_back(Value::of_string("none"));
  return {Value::Data(std::move(terms))};
}

Spec parse_spec(std::string_view text) { return bind_spec(parse_spec_text(text)); }
Spec parse_spec_json(std::string_view json) { return bind_spec(parse_json(json, "spec")); }

namespace {

// JSON, or YAML's flow style with names that are not quoted: {rope: {theta: 5}}.
Spec parse_flow_spec(std::string_view spec) {
  try {
    return parse_spec_json(spec);
  } catch (const Error& json) {
    if (json.kind() != ErrorKind::kSyntax) throw;
    try {
      return parse_spec_yaml(spec);
    } catch (const Error& yaml) {
      if (yaml.kind() == ErrorKind::kSyntax) throw json;
      throw;
    }
  }
}

}  // namespace

Spec parse_any_spec(std::string_view spec) {
  const std::size_t first = spec.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return parse_spec(spec);
  if (std::string_view("[{\"").find(spec[first]) != std::string_view::npos) {
    return parse_flow_spec(spec);
  }
  const std::size_t mark = spec.find_first_of("(:", first);
  const bool yaml =
      spec.substr(first).starts_with("- ") || (mark != std::string_view::npos && spec[mark] == ':');
  return yaml ? parse_spec_yaml(spec) : parse_spec(spec);
}

std::string to_text(const Spec& spec) { return spec_text(canonical_tree(spec)); }
std::string to_json(const Spec& spec) { return to_json(canonical_tree(spec)); }

std::string hash(const Spec& spec) { return fmt::format("{:016x}", fnv1a(to_text(spec))); }

bool follows_length(const Spec& spec, const Lengths& lengths) {
  return std::any_of(spec.encodings.begin(), spec.encodings.end(),
                     [&](const Encoding& e) { return follows_length(e, lengths); });
}

Spec at_length(Spec spec, const Lengths& lengths) {
  for (Encoding& e : spec.encodings) e = at_length(e, lengths);
  return spec;
}

std::optional<Encoding> cacheable_rotation(const Spec& spec) {
  std::optional<Encoding> found;
  for (const Encoding& e : spec.encodings) {
    if (const auto* relative = std::get_if<RelativeQuery>(&e)) {
      if (relative->of_keys()) return std::nullopt;  // reads keys before they are rotated
    }
    if (!is_rotary(e)) continue;
    if (found || !rotates_by_position(e) || follows_length(e) || is_learnable(e)) {
      return std::nullopt;
    }
    found = e;
  }
  return found;
}

Spec operator+(Spec a, const Spec& b) {
  a.encodings.insert(a.encodings.end(), b.encodings.begin(), b.encodings.end());
  return a;
}

void validate(const Spec& spec, const ModelShape& shape) {
  for (const Encoding& encoding : spec.encodings) validate(encoding, shape);
  require_one_normaliser(spec);
  require_one_product(spec);
}

std::optional<std::size_t> chain_of(const Spec& spec) {
  const auto found = std::find_if(spec.encodings.begin(), spec.encodings.end(), is_chain);
  if (found == spec.encodings.end()) return std::nullopt;
  return static_cast<std::size_t>(found - spec.encodings.begin());
}

void require_causal(std::string_view scope, const Spec& spec, bool causal) {
  const std::optional<std::size_t> chain = chain_of(spec);
  if (causal || !chain) return;
  const std::string name(traits(spec.encodings[*chain]).name);
  throw Error(ErrorKind::kConflict,
              {.scope = std::string(scope),
               .key = "causal",
               .rule = "must be true with " + name,
               .value = "false",
               .hint = "a score of " + name +
                       " has a step for every token from the key to the query; set causal=true"});
}

void require_value_width(std::string_view scope, const Spec& spec, std::int64_t head_dim,
                         std::int64_t value_dim) {
  if (value_dim == head_dim) return;
  for (const Encoding& encoding : spec.encodings) {
    const auto* rope = std::get_if<Rope>(&encoding);
    const auto* cope = std::get_if<Cope>(&encoding);
    const char* tie = nullptr;
    if (rope != nullptr && rope->values) tie = "rope(values=true)";
    if (cope != nullptr && cope->gate_source == Cope::GateSource::kValue) {
      tie = "cope(gate_source=value)";
    }
    if (tie == nullptr) continue;
    throw Error(ErrorKind::kConflict,
                {.scope = std::string(scope),
                 .key = "v",
                 .rule = fmt::format("must have {} channels as q has with {}", head_dim, tie),
                 .value = std::to_string(value_dim),
                 .hint = "use a spec without it, or as many channels in v"});
  }
}

Spec input_part(const Spec& spec) { return part_of(spec, true); }
Spec attention_part(const Spec& spec) { return part_of(spec, false); }

void require_attention_part(std::string_view scope, const Spec& spec) {
  refuse(scope, input_part(spec), "must have encodings of sites 2 to 5 only",
         "it belongs to the input: add it with nn.PositionalEmbedding or add_embeddings");
}
void require_input_part(std::string_view scope, const Spec& spec) {
  refuse(scope, attention_part(spec), "must have encodings of site 1 only",
         "it belongs to attention: give it to nn.Attention or attention");
}

std::vector<SpecParameter> parameters(const Spec& spec, const ModelShape& shape) {
  std::vector<SpecParameter> all;
  Numbered prefixes;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const std::string prefix = prefixes.next(traits(spec.encodings[e]).name);
    std::vector<ParameterInfo> infos = parameters(spec.encodings[e], shape);
    for (std::size_t p = 0; p < infos.size(); ++p) {
      infos[p].name = prefix + "." + infos[p].name;
      all.push_back({e, p, std::move(infos[p])});
    }
  }
  return all;
}

namespace {

// Sizes come from a spec that may be untrusted: their product may be more than 64 bits hold.
void check_entries(const ParameterInfo& info) {
  std::int64_t entries = 1;
  for (const std::int64_t size : info.shape) {
    if (!__builtin_mul_overflow(entries, size, &entries) && entries <= std::int64_t{1} << 40)
      continue;
    throw Error(ErrorKind::kResource,
                {.scope = "parameters", .key = info.name, .rule = "has more than 2^40 entries"});
  }
}

}  // namespace

std::vector<Parameters> initial_parameters(const Spec& spec, const ModelShape& shape,
                                           std::uint64_t seed) {
  validate(spec, shape);
  for (const SpecParameter& parameter : parameters(spec, shape)) check_entries(parameter.info);
  Rng rng(seed);
  std::vector<Parameters> values;
  for (const Encoding& encoding : spec.encodings) {
    values.push_back(initial_parameters(parameters(encoding, shape), rng));
  }
  return values;
}

std::vector<SpecInput> token_inputs(const Spec& spec, const ModelShape& shape) {
  std::vector<SpecInput> all;
  Numbered prefixes;
  Numbered projections;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const std::string prefix = prefixes.next(traits(spec.encodings[e]).name);
    for (InputInfo& info : token_inputs(spec.encodings[e], shape)) {
      info.name = prefix + "." + info.name;
      info.projection = projections.next(info.projection);
      all.push_back({e, std::move(info)});
    }
  }
  return all;
}

std::size_t first_input(const std::vector<SpecInput>& inputs, std::size_t encoding) {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [encoding](const SpecInput& input) {
    return input.encoding == encoding;
  });
  return static_cast<std::size_t>(found - inputs.begin());
}

bool is_gate(const InputInfo& info) {
  return info.activation == InputInfo::Activation::kLogSigmoid;
}

void refuse_gate(const InputInfo& info, double value, const TokenPlace& place) {
  const std::string number = std::isnan(value) ? "NaN" : fmt::format("{:g}", value);
  throw Error(ErrorKind::kOutOfRange,
              {.scope = "attention",
               .key = info.name,
               .rule = "must be at most 0",
               .value = fmt::format("{} at batch entry {}, head {}, token {}", number, place.batch,
                                    place.head, place.token),
               .hint = "give the logarithm of a gate between 0 and 1, as logsigmoid(x) is"});
}

std::string names_of(const std::vector<SpecInput>& inputs) {
  std::string names;
  for (const SpecInput& input : inputs) names += (names.empty() ? "" : ", ") + input.info.name;
  return names.empty() ? "none" : names;
}

Spec with_precision(Spec spec, Precision precision) {
  for (Encoding& encoding : spec.encodings) {
    std::visit(
        [&](auto& e) {
          if constexpr (requires { e.precision; }) e.precision = precision;
        },
        encoding);
  }
  return spec;
}

Spec with_profile(Spec spec, Profile profile, bool deepseek) {
  for (Encoding& encoding : spec.encodings) {
    if (auto* rope = std::get_if<Rope>(&encoding)) {
      rope->schedule = apply_profile(rope->schedule, profile, deepseek);
    }
  }
  return spec;
}

}  // namespace posenc
