// A spec: the list of encodings of an attention layer. "rope + alibi" is the list {Rope, Alibi}. A
// spec can be written in three equivalent forms, which have the same hash:
//
//   text   rope(theta=500000, schedule=linear(factor=4)) + alibi
//   YAML   - rope:
//              theta: 500000
//              schedule: {linear: {factor: 4}}
//          - alibi
//   JSON   [{"rope": {"theta": 500000, "schedule": {"linear": {"factor": 4}}}}, "alibi"]
//
// Fields that are not written have their defaults; the canonical form omits defaults. `none` is
// dropped when combined with other encodings, and an empty spec is written `none`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "posenc/encodings/encoding.h"

namespace posenc {

struct Spec {
  std::vector<Encoding> encodings;  // never holds None

  bool operator==(const Spec&) const = default;
};

// Reading. Errors are of type Error and name the encoding, the key, the rule and the value.
Spec parse_spec(std::string_view text);
Spec parse_spec_yaml(std::string_view yaml);
Spec parse_spec_json(std::string_view json);
// Any of the three forms. What begins with [, { or " is JSON; what begins with "- ", or has a colon before any
// parenthesis, is YAML.
Spec parse_any_spec(std::string_view spec);

// Writing, in canonical form.
std::string to_text(const Spec& spec);
std::string to_yaml(const Spec& spec);
std::string to_json(const Spec& spec);
// 16 hexadecimal digits over the canonical form (FNV-1a, 64 bits).
std::string hash(const Spec& spec);

Spec operator+(Spec a, const Spec& b);

void validate(const Spec& spec, const ModelShape& shape);

// The two parts of a model's spec: encodings added to the input (site 1), and encodings of
// attention (sites 2 to 5).
Spec input_part(const Spec& spec);
Spec attention_part(const Spec& spec);
// Throws Error if the spec has encodings of the other part, which would be ignored. `scope` names the
// operation in the message.
void require_attention_part(std::string_view scope, const Spec& spec);
void require_input_part(std::string_view scope, const Spec& spec);

// Every parameter of a spec under its stable name: "alibi.slopes", "cope.pos_emb"; a second
// encoding of the same kind is numbered, "alibi_2.slopes".
struct SpecParameter {
  std::size_t encoding = 0;  // index into Spec::encodings
  std::size_t index = 0;     // index into that encoding's parameters
  ParameterInfo info;        // with the full name
};
std::vector<SpecParameter> parameters(const Spec& spec, const ModelShape& shape);
// Initial values of all parameters, an entry per encoding (empty where it has none): what AttentionCall and
// EmbeddingCall take. The same seed gives the same values. Throws Error where the spec does not fit the shape.
std::vector<Parameters> initial_parameters(const Spec& spec, const ModelShape& shape,
                                           std::uint64_t seed = 0);

// Every extra input of attention that a spec needs, under its stable name: "cope.gate_k". Calls take
// them as a list in this order.
struct SpecInput {
  std::size_t encoding = 0;  // index into Spec::encodings
  InputInfo info;            // with the full name; a second projection of a name is numbered
};
std::vector<SpecInput> token_inputs(const Spec& spec, const ModelShape& shape);
// The index in the list of an encoding's first input.
std::size_t first_input(const std::vector<SpecInput>& inputs, std::size_t encoding);
// Whether an input is the logarithm of a gate; one of its values: at most 0, and not NaN.
bool is_gate(const InputInfo& info);
constexpr bool is_log_gate(double x) { return x <= 0.0; }
// Throws Error: a token that is not hidden has a value that is_log_gate refuses.
struct TokenPlace {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;
};
[[noreturn]] void refuse_gate(const InputInfo& info, double value, const TokenPlace& place);
// The names of inputs for a message: "cope.gate_k", or "none".
std::string names_of(const std::vector<SpecInput>& inputs);

// Whether a rotation depends on the sequence length (length.h), and the spec with such rotations
// fixed at a length.
bool follows_length(const Spec& spec, const Lengths& lengths = {});
Spec at_length(Spec spec, const Lengths& lengths);
// The rotation that can be applied to keys before they are cached: the only one of the spec, if it depends on positions
// alone, is not trained and does not rotate values. For other specs a cache stores unrotated keys.
std::optional<Encoding> cacheable_rotation(const Spec& spec);

// The index of the spec's ChainEncoding (path or wall), if it has one.
std::optional<std::size_t> chain_of(const Spec& spec);
// Throws Error if the spec has a ChainEncoding and attention is not causal. `scope` names the operation in the message.
void require_causal(std::string_view scope, const Spec& spec, bool causal);
// Throws Error if values have another number of channels than queries and the spec treats them alike: rope(values=true)
// and cope(gate_source=value).
void require_value_width(std::string_view scope, const Spec& spec, std::int64_t head_dim,
                         std::int64_t value_dim);

// The spec with this precision for every encoding that has one.
Spec with_precision(Spec spec, Precision precision);
// The spec with the fields on which systems disagree set to match `profile`.
Spec with_profile(Spec spec, Profile profile, bool deepseek = false);

}  // namespace posenc

// SPDX-License-Identifier: MIT
