// A spec: the list of encodings that an attention layer uses. A hybrid is arithmetic: rope + alibi
// is the list {Rope, Alibi}. Three written forms say the same thing and have the same hash:
//
//   text   rope(theta=500000, schedule=linear(factor=4)) + alibi
//   YAML   - rope:
//              theta: 500000
//              schedule: {linear: {factor: 4}}
//          - alibi
//   JSON   [{"rope": {"theta": 500000, "schedule": {"linear": {"factor": 4}}}}, "alibi"]
//
// Fields not written have their defaults; the canonical form leaves them out. `none` adds nothing,
// so it vanishes beside others, and an empty spec is written `none`.
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

// Writing, in canonical form.
std::string to_text(const Spec& spec);
std::string to_yaml(const Spec& spec);
std::string to_json(const Spec& spec);
// 16 hexadecimal digits over the canonical form (FNV-1a, 64 bits).
std::string hash(const Spec& spec);

Spec operator+(Spec a, const Spec& b);

void validate(const Spec& spec, const ModelShape& shape);

// A spec for a whole model in two parts: what is added to the input (site 1), and what attention
// reads (sites 2 to 5).
Spec input_part(const Spec& spec);
Spec attention_part(const Spec& spec);
// Throws Error where a spec has encodings of the other part, which would be ignored there; `scope`
// is the operation that complains.
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

// Every tensor that attention reads for a spec, next to q, k and v, named likewise: "cope.gate_k". A call
// takes them as a list in this order.
struct SpecInput {
  std::size_t encoding = 0;  // index into Spec::encodings
  InputInfo info;            // with the full name; a second projection of a name is numbered
};
std::vector<SpecInput> token_inputs(const Spec& spec, const ModelShape& shape);
// The place in the list of an encoding's first input.
std::size_t first_input(const std::vector<SpecInput>& inputs, std::size_t encoding);
// Whether an input is the logarithm of a gate, which is at most 0; and the refusal of one whose largest value is above.
bool is_gate(const InputInfo& info);
void require_gate(const InputInfo& info, double largest);
// Their names for a message: "cope.gate_k", or "none".
std::string names_of(const std::vector<SpecInput>& inputs);

// Whether an encoding's rotation changes while a sequence grows (length.h), and the same spec with such
// rotations made constant, as they are at a length.
bool follows_length(const Spec& spec, const Lengths& lengths = {});
Spec at_length(Spec spec, const Lengths& lengths);
// The rotation of keys that a key/value cache can keep rotated: the spec's only one, where it neither
// follows the length nor trains, and has angles from positions for keys alone. Keys of other specs are kept unrotated.
std::optional<Encoding> cacheable_rotation(const Spec& spec);

// The index of the chain of steps (path, wall) that a spec has in place of the product of query and key.
std::optional<std::size_t> chain_of(const Spec& spec);
// Throws Error where a spec has one and attention is not causal; `scope` is the operation that complains.
void require_causal(std::string_view scope, const Spec& spec, bool causal);

// The same spec with the precision of every encoding that has one set to this.
Spec with_precision(Spec spec, Precision precision);
// The same spec with every field on which systems disagree set as the named system sets it.
Spec with_profile(Spec spec, Profile profile, bool deepseek = false);

}  // namespace posenc
