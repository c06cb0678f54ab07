#include "posenc/encodings/spec.h"

#include <fmt/format.h>

#include <map>

#include "core/bind.h"
#include "encodings/spec_text.h"
#include "encodings/spec_tree.h"

namespace posenc {
namespace {

template <class... Configs>
std::variant<Configs...> bind_encoding(const Value& term, const std::variant<Configs...>* /*tag*/) {
  const FieldRule rule;
  return bind_alternative<Configs...>(read_named(term, "spec", "encoding"),
                                      FieldContext{"spec", "encoding", rule});
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

std::string to_text(const Spec& spec) { return spec_text(canonical_tree(spec)); }
std::string to_json(const Spec& spec) { return to_json(canonical_tree(spec)); }

std::string hash(const Spec& spec) {
  std::uint64_t state = 0xcbf29ce484222325u;
  for (const char c : to_text(spec)) {
    state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  return fmt::format("{:016x}", state);
}

Spec operator+(Spec a, const Spec& b) {
  a.encodings.insert(a.encodings.end(), b.encodings.begin(), b.encodings.end());
  return a;
}

void validate(const Spec& spec, const ModelShape& shape) {
  for (const Encoding& encoding : spec.encodings) validate(encoding, shape);
}

std::vector<SpecParameter> parameters(const Spec& spec, const ModelShape& shape) {
  std::vector<SpecParameter> all;
  std::map<std::string_view, int> seen;
  for (std::size_t e = 0; e < spec.encodings.size(); ++e) {
    const std::string_view name = traits(spec.encodings[e]).name;
    const int number = ++seen[name];
    const std::string prefix = number == 1 ? std::string(name) : fmt::format("{}_{}", name, number);
    std::vector<ParameterInfo> infos = parameters(spec.encodings[e], shape);
    for (std::size_t p = 0; p < infos.size(); ++p) {
      infos[p].name = prefix + "." + infos[p].name;
      all.push_back({e, p, std::move(infos[p])});
    }
  }
  return all;
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
