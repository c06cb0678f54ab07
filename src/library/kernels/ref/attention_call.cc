// A call of the reference, made ready: its sequences, and what every head of it reads.
#include <algorithm>
#include <cmath>

#include "kernels/ref/attention_row.h"
#include "kernels/ref/chain.h"
#include "kernels/ref/checks.h"

namespace posenc::ref {
namespace {

constexpr const char* kScope = "attention";

ModelShape model_shape(const AttentionShape& shape) {
  return {.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = 0};
}

const AttentionShape& checked(const AttentionShape& shape, const AttentionInputs& inputs,
                              const Spec& spec, const SpecParameters& parameters) {
  check_shape(kScope, shape);
  require_attention_part(kScope, spec);
  validate(spec, model_shape(shape));
  require_value_width(kScope, spec, shape.head_dim, shape.value_width());
  check_inputs(kScope, shape, inputs, token_inputs(spec, model_shape(shape)));
  check_parameters(kScope, spec, parameters, model_shape(shape));
  return shape;
}

void check_numbers(const AttentionOptions& options) {
  const double rate = options.dropout.rate;
  if (!(rate >= 0.0 && rate < 1.0)) {
    throw Error(ErrorKind::kOutOfRange, {.scope = kScope,
                                         .key = "dropout.rate",
                                         .rule = "must be in [0, 1)",
                                         .value = std::to_string(rate),
                                         .hint = ""});
  }
}

}  // namespace

AttentionCall::AttentionCall(const Spec& spec_in, const SpecParameters& parameters_in,
                             const AttentionShape& shape_in, const AttentionInputs& inputs_in,
                             const AttentionOptions& options_in)
    : spec(spec_in),
      parameters(parameters_in),
      shape(checked(shape_in, inputs_in, spec_in, parameters_in)),
      inputs(inputs_in),
      options(options_in),
      mask(kScope, shape, options.masking),
      positions(kScope, shape, options.positions, mask),
      transforms(kScope, spec, parameters, model_shape(shape), positions.lengths(options.lengths),
                 positions.axes()),
      scale(options.scale.value_or(default_scale(shape.head_dim)) * transforms.softmax_factor()),
      token_inputs(posenc::token_inputs(spec, model_shape(shape))),
      breaks_sticks(
          std::any_of(spec.encodings.begin(), spec.encodings.end(),
                      [](const Encoding& e) { return std::holds_alternative<StickBreaking>(e); })),
      chain(chain_of(spec)) {
  check_numbers(options);
  check_chain(*this);
  check_gates(*this);
}

bool is_running(const AttentionCall& call, std::size_t input) {
  const auto* rope = std::get_if<Rope>(&call.spec.encodings[call.token_inputs[input].encoding]);
  return rope != nullptr && rope->running;
}

std::vector<Sequence> key_sequences(const AttentionCall& call) {
  std::vector<Sequence> all;
  const std::vector<std::int64_t>& sequence = call.mask.keys().sequence;
  for (std::size_t j = 0; j < sequence.size(); ++j) {
    if (j == 0 || sequence[j] != sequence[j - 1]) all.push_back({j, 0});
    ++all.back().count;
  }
  return all;
}

std::span<const std::uint8_t> real_keys(const AttentionCall& call, std::int64_t batch,
                                        const Sequence& sequence) {
  const std::vector<std::uint8_t>& mask = call.options.masking.key_mask;
  if (mask.empty()) return {};
  const auto first = static_cast<std::size_t>(batch * call.shape.keys) + sequence.first;
  return std::span(mask).subspan(first, sequence.count);
}

namespace {

// Sums of the steps of a rotation up to every token of its sequence; nothing for other inputs.
std::vector<double> running_sums(const AttentionCall& call, const Head& head, std::size_t input) {
  if (!is_running(call, input)) return {};
  const auto& steps = head.of_encodings[input];
  std::vector<double> sums(steps.begin(), steps.end());
  const auto channels = static_cast<std::size_t>(call.token_inputs[input].info.channels);
  for (const Sequence& s : key_sequences(call)) {
    const auto real = real_keys(call, head.batch, s);
    for (std::size_t n = 0; n < s.count * channels; ++n) {
      double& at = sums[s.first * channels + n];
      if (!real.empty() && real[n / channels] == 0) at = 0.0;
      if (n >= channels) at += sums[s.first * channels + n - channels];
    }
  }
  return sums;
}

HeadTokenTerm head_term(const AttentionCall& call, const Head& head, std::size_t encoding) {
  HeadTokenTerm term{.input = first_input(call.token_inputs, encoding),
                     .form = *token_form(call.spec.encodings[encoding], call.scale),
                     .sums = {},
                     .before = {}};
  for (const Sequence& s : key_sequences(call)) {
    const TokenSums part =
        token_sums(term.form, head.of_encodings[term.input].subspan(s.first, s.count),
                   real_keys(call, head.batch, s));
    const auto append = [](const std::vector<double>& from, std::vector<double>& to) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(part.at_query, term.sums.at_query);
    append(part.at_key, term.sums.at_key);
    for (std::size_t t = 0; t < s.count; ++t) {
      // A token that is not finite shows in the rows that see it.
      const double sum = t == 0 ? 0.0 : part.at_query[t - 1];
      term.before.push_back(std::isfinite(part.at_key[t]) ? sum : part.at_key[t]);
    }
  }
  return term;
}

}  // namespace

Head::Head(const AttentionCall& call, std::int64_t batch_in, std::int64_t head_in)
    : batch(batch_in),
      head(head_in),
      query_matrix(batch * call.shape.heads + head),
      key_matrix(batch * call.shape.kv_heads + call.shape.kv_head_of(head)) {
  const std::int64_t key_size = call.shape.keys * call.shape.head_dim;
  q = vector_at(call.inputs.q, query_matrix, call.shape.queries * call.shape.head_dim);
  k = vector_at(call.inputs.k, key_matrix, key_size);
  v = vector_at(call.inputs.v, key_matrix, call.shape.keys * call.shape.value_width());
  for (std::size_t i = 0; i < call.token_inputs.size(); ++i) {
    of_encodings.push_back(part_of_head(call, *this, i, call.inputs.of_encodings[i]));
    running.push_back(running_sums(call, *this, i));
    if (!running.back().empty()) of_encodings.back() = running.back();
  }
  for (std::size_t e = 0; e < call.spec.encodings.size(); ++e) {
    if (token_form(call.spec.encodings[e], 1.0)) token_terms.push_back(head_term(call, *this, e));
  }
  rotated_k.assign(k.begin(), k.end());
  if (call.transforms.rotates_values()) rotated_v.assign(v.begin(), v.end());
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    const HeadToken token = key_token(call, *this, j);
    call.transforms.apply(Role::kKey, token,
                          vector_at(std::span(rotated_k), j, call.shape.head_dim));
    if (rotated_v.empty()) continue;
    call.transforms.apply_to_value(token, false,
                                   vector_at(std::span(rotated_v), j, call.shape.head_dim));
  }
}

HeadToken key_token(const AttentionCall& call, const Head& head, std::int64_t key) {
  HeadToken token{head.head, call.positions.key(head.batch, key)};
  for (std::size_t i = 0; i < head.of_encodings.size(); ++i) {
    token.rows.push_back(vector_at(head.of_encodings[i], key, call.token_inputs[i].info.channels));
  }
  return token;
}

HeadToken query_token(const AttentionCall& call, const Head& head, const Row& row,
                      std::int64_t query) {
  HeadToken token{head.head, call.positions.query(head.batch, query)};
  token.rows.resize(head.of_encodings.size());
  if (row.own_key) {
    token.rows = key_token(call, head, static_cast<std::int64_t>(*row.own_key)).rows;
  }
  return token;
}

}  // namespace posenc::ref
