#include "torch/composed/composed.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "torch/composed/biases.h"
#include "torch/composed/non_finite.h"
#include "torch/composed/numbers.h"

namespace posenc::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor on(const at::Tensor& like, const std::vector<double>& values) {
  return at::tensor(values, at::kDouble).to(like.device());
}

// Positions [B or 1, T, axes] as each pair sees them: [B or 1, T, 1, pairs or 1].
at::Tensor at_pairs(const Rotary& rotary, const at::Tensor& positions) {
  if (positions.size(2) == 1) return positions.unsqueeze(2);
  if (rotary.axes.axes == 1) return positions.narrow(2, 0, 1).unsqueeze(2);
  const std::vector<std::int64_t> axes(rotary.axes.axis_of_pair.begin(),
                                       rotary.axes.axis_of_pair.end());
  return positions.index_select(2, at::tensor(axes, at::kLong).to(positions.device())).unsqueeze(2);
}

// Rotary::angle and Rotary::magnitude, [B or 1, T, groups, pairs] in float64.
at::Tensor angle_of(const Rotary& rotary, const at::Tensor& positions, const at::Tensor& alpha) {
  Tensors groups;
  for (const auto& group : rotary.inv_freq) groups.push_back(on(positions, group));
  at::Tensor frequency = at::stack(groups);  // [groups, pairs]
  if (alpha.defined()) frequency = frequency * alpha.to(at::kDouble).exp();
  const at::Tensor n = at_pairs(rotary, positions);
  const at::Tensor angle = rotary.precision == Precision::kHf
                               ? (n.to(at::kFloat) * frequency.to(at::kFloat)).to(at::kDouble)
                               : n.to(at::kDouble) * frequency;
  return rotary.inverse ? -angle : angle;
}
at::Tensor magnitude_of(const Rotary& rotary, Role role, const at::Tensor& positions) {
  at::Tensor factor = on(positions, {rotary.attention_factor});
  if (rotary.log_zeta.empty()) return factor;
  const double sign = role == Role::kQuery ? 1.0 : -1.0;
  const at::Tensor power =
      (at_pairs(rotary, positions).to(at::kDouble) - rotary.center) / rotary.scale_base;
  return factor * (sign * power * on(positions, rotary.log_zeta)).exp();
}

// Cos and sin, magnitude included.
struct Angles {
  at::Tensor cos;
  at::Tensor sin;
};

// [B, T, groups, pairs] to [B, heads, T, pairs].
at::Tensor to_heads(const at::Tensor& x, std::int64_t heads, at::ScalarType type) {
  const at::Tensor first = x.permute({0, 2, 1, 3});
  return first.repeat_interleave(heads / first.size(1), 1).to(type);
}

// `angles`: [B, heads, T, pairs], in the type of x.
at::Tensor turned(const Rotary& rotary, const Angles& angles, const at::Tensor& x) {
  const std::int64_t first = rotary.dim_offset;
  const std::int64_t pairs = rotary.pairs();
  const auto& [cos, sin] = angles;
  const at::Tensor window = x.narrow(3, first, 2 * pairs);
  const bool interleaved = rotary.layout == PairLayout::kInterleaved;
  const at::Tensor a = interleaved ? window.slice(3, 0, 2 * pairs, 2) : window.narrow(3, 0, pairs);
  const at::Tensor b =
      interleaved ? window.slice(3, 1, 2 * pairs, 2) : window.narrow(3, pairs, pairs);
  const at::Tensor y1 = a * cos - b * sin;
  const at::Tensor y2 = a * sin + b * cos;
  const at::Tensor middle =
      interleaved ? at::stack({y1, y2}, -1).flatten(-2) : at::cat({y1, y2}, 3);
  const std::int64_t end = first + 2 * pairs;
  return at::cat({x.narrow(3, 0, first), middle, x.narrow(3, end, x.size(3) - end)}, 3);
}

Angles by_head(const Angles& angles, const at::Tensor& x) {
  return {to_heads(angles.cos, x.size(1), x.scalar_type()),
          to_heads(angles.sin, x.size(1), x.scalar_type())};
}

// Angles that an input gives to the tokens of a side, [B, Hkv, T, pairs] in float64.
at::Tensor angles_of_input(const ComposedCall& call, std::size_t r, Role role) {
  const Terms& terms = call.prepared->plan.terms();
  const Rope& rope = *rope_of_input(terms, r);
  const Rotary& rotary = terms.rotations[r];
  at::Tensor x = call.inputs[first_input(terms.inputs, terms.rotary[r])].to(at::kDouble);
  if (rope.running) {
    if (call.tokens->key_mask().defined()) {
      x = x * call.tokens->key_mask().ne(0).reshape({x.size(0), 1, -1, 1}).to(at::kDouble);
    }
    const at::Tensor sums = x.cumsum(2);
    const at::Tensor first = call.tokens->first_of_sequence();
    x = sums - sums.index_select(2, first) + x.index_select(2, first);
  }
  if (role == Role::kQuery) {
    const at::Tensor own = call.tokens->own_key_index();
    x = x.index_select(2, own.clamp_min(0)).masked_fill((own < 0).reshape({1, 1, -1, 1}), 0.0);
  }
  if (rope.angles == Rope::Angles::kInputPosition) {
    Tensors frequencies;
    for (std::int64_t h = 0; h < x.size(1); ++h) {
      frequencies.push_back(on(x, rotary.inv_freq[rotary.group_of(h, x.size(1))]));
    }
    x = x * at::stack(frequencies).unsqueeze(1);
  }
  return rotary.inverse ? -x : x;
}

// A rotation of the spec. `back`: by minus the angles. Values have no magnitude.
struct Turn {
  Role role = Role::kQuery;
  bool back = false;
  bool of_values = false;
};

at::Tensor turned_by(const ComposedCall& call, const std::vector<Tensors>& parameters,
                     std::size_t r, const Turn& turn, const at::Tensor& x) {
  const Terms& terms = call.prepared->plan.terms();
  const Rotary& rotary = terms.rotations[r];
  const at::Tensor positions =
      turn.role == Role::kQuery ? call.tokens->q_positions() : call.tokens->k_positions();
  at::Tensor angle;
  at::Tensor magnitude = on(x, {rotary.attention_factor});
  if (rope_of_input(terms, r) != nullptr) {
    angle = angles_of_input(call, r, turn.role);
    angle = angle.repeat_interleave(x.size(1) / angle.size(1), 1);
  } else {
    const Tensors& own = parameters[terms.rotary[r]];
    angle = to_heads(angle_of(rotary, positions, own.empty() ? at::Tensor() : own[0]), x.size(1),
                     at::kDouble);
    magnitude = magnitude_of(rotary, turn.role, positions);
    if (magnitude.dim() == 4) magnitude = to_heads(magnitude, x.size(1), at::kDouble);
  }
  if (turn.back) angle = -angle;
  if (turn.of_values) magnitude = on(x, {1.0});
  const auto type = x.scalar_type();
  return turned(rotary, {(magnitude * angle.cos()).to(type), (magnitude * angle.sin()).to(type)},
                x);
}

// The rotations that values have too: of values, or of outputs back.
at::Tensor rotated_values(const ComposedCall& call, const std::vector<Tensors>& parameters,
                          bool back, at::Tensor x) {
  const Terms& terms = call.prepared->plan.terms();
  for (std::size_t n = 0; terms.rotates_values && n < terms.rotary.size(); ++n) {
    const std::size_t r = back ? terms.rotary.size() - 1 - n : n;
    const auto* rope = std::get_if<Rope>(&terms.spec.encodings[terms.rotary[r]]);
    if (rope == nullptr || !rope->values) continue;
    const Role role = back ? Role::kQuery : Role::kKey;
    x = turned_by(call, parameters, r, {.role = role, .back = back, .of_values = true}, x);
  }
  return x;
}

// The factors of dropout's rule for every weight, drawn on the host.
at::Tensor dropout_factors(const Dropout& dropout, const at::Tensor& weights) {
  const at::Tensor factors = at::empty(weights.sizes(), at::kFloat);
  auto* to = factors.data_ptr<float>();
  const std::int64_t heads = weights.size(1);
  const std::int64_t queries = weights.size(2);
  const std::int64_t keys = weights.size(3);
  at::parallel_for(
      0, weights.numel() / std::max<std::int64_t>(keys, 1), 8,
      [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          for (std::int64_t j = 0; j < keys; ++j) {
            to[row * keys + j] = static_cast<float>(dropout_factor(
                dropout, row / queries / heads, row / queries % heads, row % queries, j));
          }
        }
      });
  return factors.to(weights.options());
}

// What the terms of a score read.
struct Scores {
  at::Tensor plain_q;  // [B, H, Tq, D], before site 2
  at::Tensor raw;      // [B, H, Tq, Tk]
  at::Tensor bias;     // broadcasts to raw, or undefined
  at::Tensor gates;    // [B, H, Tk, D]: what CoPE's compare the query with, or undefined
  at::Tensor visible;
  double scale = 1.0;
};

// <x, entries> for every entry (the last dimension). Entries that are NaN show where they are read; products must not
// spread them over a row.
at::Tensor products_with(const at::Tensor& x, const at::Tensor& entries) {
  const at::Tensor known = entries.isfinite();
  const at::Tensor finite = at::where(known, entries, at::zeros({}, entries.options()));
  const at::Tensor unknown = known.all(-2, true).logical_not();
  return at::matmul(x, finite).masked_fill(unknown, std::numeric_limits<double>::quiet_NaN());
}

struct CopeTerm {
  at::Tensor logits;
  at::Tensor positions;
};

CopeTerm cope_term(const Cope& config, const Tensors& parameters, const Scores& s) {
  at::Tensor logit = s.raw;
  if (s.gates.defined()) logit = at::matmul(s.plain_q, s.gates.transpose(-1, -2)) * s.scale;
  if (config.gates_see_bias && s.bias.defined()) logit = logit + s.bias;
  const bool open = config.gate_source == Cope::GateSource::kOpen;
  const at::Tensor gates =
      (open ? at::ones_like(logit) : at::sigmoid(logit)).masked_fill(s.visible.logical_not(), 0.0);
  const at::Tensor sum = gates.to(at::kDouble).flip(-1).cumsum(-1).flip(-1);
  const auto last = static_cast<double>(config.npos_max - 1);
  // Not clamp(): a sum that is exactly the last position no longer moves. A NaN stays one.
  const at::Tensor position = at::where(sum >= last, at::full_like(sum, last), sum);
  const double scale = logit_factor(config, s.plain_q.size(3));
  if (config.variant == Cope::Variant::kAlibi) {
    const at::Tensor slopes = parameters[0].reshape({1, -1, 1, 1}).to(s.raw.scalar_type());
    return {scale * slopes * position.to(s.raw.scalar_type()), position};
  }
  const at::Tensor table = products_with(s.plain_q, parameters[0].to(s.raw.scalar_type())) * scale;
  const at::Tensor low = position.detach().nan_to_num().floor();  // NaN is no index
  const at::Tensor weight = (position - low).to(s.raw.scalar_type());
  const at::Tensor at_low = table.gather(-1, low.to(at::kLong));
  const at::Tensor at_high = table.gather(-1, (low + 1).clamp_max(last).to(at::kLong));
  return {at_low * (1.0 - weight) + at_high * weight, position};
}

at::Tensor sum_of_biases(const ComposedCall& call, const std::vector<Tensors>& parameters,
                         at::ScalarType type) {
  const at::Tensor i = call.tokens->q_positions().select(2, 0);
  const at::Tensor j = call.tokens->k_positions().select(2, 0);
  at::Tensor sum;
  const auto add = [&](const at::Tensor& one) { sum = sum.defined() ? sum + one : one; };
  for (const std::size_t e : call.prepared->plan.terms().biases) {
    const at::Tensor distance = i.unsqueeze(2) - j.unsqueeze(1);  // [B or 1, Tq, Tk]
    const auto& encoding = call.prepared->spec.encodings[e];
    add(toeplitz_bias(encoding, parameters[e], distance).transpose(0, 1).to(type));
  }
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    const auto* fire = std::get_if<Fire>(&call.prepared->spec.encodings[e]);
    if (fire != nullptr) add(fire_bias(*fire, parameters[e], i, j).to(type));
  }
  return sum;
}

// A token term, [B, H, Tq or 1, Tk]. Sums over tokens are products with the order of the tokens.
at::Tensor token_term(const ComposedCall& call, const at::Tensor& input, const TokenForm& form) {
  at::Tensor x = input.to(at::kDouble).squeeze(-1);  // [B, H, Tk]
  if (call.tokens->key_mask().defined()) {
    x = x * call.tokens->key_mask().ne(0).unsqueeze(1).to(at::kDouble);
  }
  x = x.repeat_interleave(call.q.size(1) / std::max<std::int64_t>(x.size(1), 1), 1) * form.factor;
  if (!form.running) return x.unsqueeze(2);
  const at::Tensor at_query = at::matmul(x, call.tokens->key_counts(Role::kQuery).t());
  const at::Tensor at_key = at::matmul(x, call.tokens->key_counts(Role::kKey).t());
  return at_query.unsqueeze(3) - at_key.unsqueeze(2);
}

at::Tensor sum_of_token_terms(const ComposedCall& call, double scale, at::ScalarType type) {
  at::Tensor sum;
  const auto& terms = call.prepared->plan.terms();
  for (std::size_t i = 0; i < terms.inputs.size(); ++i) {
    const auto form = token_form(terms.spec.encodings[terms.inputs[i].encoding], scale);
    if (!form) continue;
    const at::Tensor term = token_term(call, call.inputs[i], *form).to(type);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

at::Tensor relative_term(const ComposedCall& call, std::size_t index, const Tensors& parameters,
                         const at::Tensor& plain_q, double scale) {
  const Terms& terms = call.prepared->plan.terms();
  const auto& config = std::get<RelativeQuery>(terms.spec.encodings[index]);
  at::Tensor u = plain_q;
  if (config.reads_input()) {
    const at::Tensor own = call.tokens->own_key_index();
    u = call.inputs[first_input(terms.inputs, index)]
            .to(plain_q.scalar_type())
            .index_select(2, own.clamp_min(0))
            .masked_fill((own < 0).reshape({1, 1, -1, 1}), 0.0);
  }
  const at::Tensor products =
      products_with(u, parameters[0].to(plain_q.scalar_type())) * config.factor(scale);
  const at::Tensor distance = call.tokens->q_positions().select(2, 0).unsqueeze(2) -
                              call.tokens->k_positions().select(2, 0).unsqueeze(1);
  const at::Tensor near = distance.clamp(config.lowest(), config.extent - 1);
  const at::Tensor entry = (near - config.lowest()).unsqueeze(1);
  const at::Tensor term = products.gather(
      -1, entry.expand({products.size(0), products.size(1), entry.size(2), entry.size(3)}));
  if (config.beyond == RelativeQuery::Beyond::kClip) return term;
  return term.masked_fill((near != distance).unsqueeze(1), 0.0);
}

at::Tensor rotated(const ComposedCall& call, const std::vector<Tensors>& parameters, Role role,
                   at::Tensor x) {
  const auto& terms = call.prepared->plan.terms();
  if (role == Role::kQuery && !terms.temperatures.empty()) {
    x = x * query_factors(terms, *call.tokens, parameters).to(x.scalar_type());
  }
  if (terms.rotary.empty()) return x;
  static_cast<void>(call.tokens->side(role));  // refuses positions that are not exact
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    x = turned_by(call, parameters, r, {.role = role}, x);
  }
  return x;
}

// Of all sinks together, [1, H, 1, 1]; undefined where there is none.
at::Tensor sink_logit(const ComposedCall& call, const std::vector<Tensors>& parameters,
                      at::ScalarType type) {
  at::Tensor sum;
  for (const std::size_t e : call.prepared->plan.terms().sinks) {
    const at::Tensor one = parameters[e][0].reshape({1, -1, 1, 1}).to(type);
    sum = sum.defined() ? at::logaddexp(sum, one) : one;
  }
  return sum;
}

at::Tensor leaf(const at::Tensor& x) { return x.detach().set_requires_grad(true); }

double scale_of(const ComposedCall& call) {
  const auto& terms = call.prepared->plan.terms();
  double scale = call.scale.value_or(default_scale(call.q.size(3)));
  for (const Rotary& rotary : terms.rotations) scale *= rotary.softmax_factor;
  return scale;
}

}  // namespace

at::Tensor composed_rotation(const Encoding& encoding, const ModelShape& shape,
                             const Lengths& lengths, Role role, const at::Tensor& x,
                             const at::Tensor& positions, const at::Tensor& alpha) {
  const Rotary rotary = rotary_of(encoding, shape, lengths);
  const at::Tensor angle = angle_of(rotary, positions, alpha);
  const at::Tensor magnitude = magnitude_of(rotary, role, positions);
  return turned(rotary, by_head({magnitude * angle.cos(), magnitude * angle.sin()}, x), x);
}

at::Tensor rotated_rows(const ComposedCall& call, const std::vector<Tensors>& parameters, Role role,
                        const at::Tensor& x) {
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return rotated(call, parameters, role, x.to(type)).to(x.scalar_type());
}

at::Tensor composed_rerotation(const Rotary& from, const at::Tensor& from_positions,
                               const Rotary& to, const at::Tensor& to_positions,
                               const at::Tensor& x) {
  const at::Tensor angle = angle_of(to, to_positions, {}) - angle_of(from, from_positions, {});
  // By rotation alone: the schedule's factor is in the key already.
  const at::Tensor ratio = (from.attention_factor / to.attention_factor) *
                           magnitude_of(to, Role::kKey, to_positions) /
                           magnitude_of(from, Role::kKey, from_positions);
  const at::Tensor wide = x.to(at::kDouble);
  return turned(from, by_head({ratio * angle.cos(), ratio * angle.sin()}, wide), wide)
      .to(x.scalar_type());
}

at::Tensor visible_keys(const ComposedCall& call) {
  const at::Tensor visible = call.tokens->visible();
  if (!call.prepared->plan.terms().breaks_sticks) return visible;
  return visible & (call.tokens->q_places().unsqueeze(1) > call.tokens->k_places().unsqueeze(0));
}

at::Tensor query_factors(const Terms& terms, const Tokens& tokens,
                         const std::vector<std::vector<at::Tensor>>& parameters,
                         std::optional<std::size_t> without) {
  at::Tensor product;
  for (const std::size_t index : terms.temperatures) {
    const auto& config = std::get<Temperature>(terms.spec.encodings[index]);
    const at::Tensor positions = tokens.q_positions().select(2, 0).to(at::kDouble);
    at::Tensor one = config.factor(formulas::Numbers{positions}).all.unsqueeze(1).unsqueeze(3);
    if (config.trained() && index != without) {
      one = one * parameters[index][0].to(at::kDouble).reshape({1, -1, 1, 1});
    }
    product = product.defined() ? product * one : one;
  }
  return product;
}

namespace {

// Weights, and a number per row: the log-sum-exp, or the logarithm of what is left of a stick.
struct Weighed {
  at::Tensor weights;  // [B, H, Tq, Tk], 0 where a key is hidden
  at::Tensor lse;      // [B, H, Tq, 1]
};

// `none`: rows that see nothing. They have weights 0, and no NaN in their gradient.
Weighed softmax(const at::Tensor& scores, const at::Tensor& none, const at::Tensor& sink) {
  const at::Tensor largest = scores.size(3) > 0
                                 ? scores.detach().amax(-1, true).masked_fill(none, 0.0)
                                 : at::zeros({1, 1, 1, 1}, scores.options());
  const at::Tensor weights = (scores - largest).exp();
  const at::Tensor sum = weights.sum(-1, true);
  Weighed row{weights / sum.masked_fill(none, 1.0), largest + sum.masked_fill(none, 1.0).log()};
  if (!sink.defined()) return row;
  row.weights = row.weights * (row.lse - sink).sigmoid();
  row.lse = at::logaddexp(row.lse, sink);
  return row;
}

Weighed break_sticks(const at::Tensor& scores, const at::Tensor& visible) {
  const at::Tensor hidden = visible.logical_not();
  const at::Tensor wide = scores.to(at::kDouble);
  const at::Tensor taken = at::softplus(wide).masked_fill(hidden, 0.0);
  const at::Tensor up_to = taken.flip(-1).cumsum(-1);  // of a key and those after it
  const at::Tensor after =
      at::cat({at::zeros_like(up_to.narrow(-1, 0, std::min<std::int64_t>(1, up_to.size(3)))),
               up_to.narrow(-1, 0, std::max<std::int64_t>(up_to.size(3) - 1, 0))},
              -1)
          .flip(-1);
  const at::Tensor weights = (at::log_sigmoid(wide) - after).exp().masked_fill(hidden, 0.0);
  return {weights.to(scores.scalar_type()), -taken.sum(-1, true).to(scores.scalar_type())};
}

// Of finite tokens.
ComposedResult compose(const ComposedCall& call) {
  const auto type = call.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::vector<Tensors> parameters = parameter_tensors(*call.prepared, call.parameters);
  const std::int64_t sharing = call.q.size(1) / std::max<std::int64_t>(call.k.size(1), 1);
  const auto keys = [&](const at::Tensor& x) { return x.to(type).repeat_interleave(sharing, 1); };
  Scores s;
  s.plain_q = call.q.to(type);
  s.scale = scale_of(call);
  s.visible = visible_keys(call);
  const at::Tensor v = keys(call.v);
  const at::Tensor k = keys(call.k);
  s.raw =
      at::matmul(
          rotated(call, parameters, Role::kQuery, s.plain_q),
          (call.keys_are_turned ? k : rotated(call, parameters, Role::kKey, k)).transpose(-1, -2)) *
      s.scale;
  s.bias = sum_of_biases(call, parameters, type);
  ComposedResult result;
  at::Tensor scores = s.bias.defined() ? s.raw + s.bias : s.raw;
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    const auto* cope = std::get_if<Cope>(&call.prepared->spec.encodings[e]);
    if (cope == nullptr) continue;
    Scores seen = s;
    if (cope->gate_source == Cope::GateSource::kValue) seen.gates = v;
    if (cope->gate_source == Cope::GateSource::kSeparate) {
      seen.gates = keys(call.inputs[first_input(call.prepared->plan.terms().inputs, e)]);
    }
    const CopeTerm term = cope_term(*cope, parameters[e], seen);
    scores = scores + term.logits;
    if (!result.cope_positions.defined()) result.cope_positions = term.positions;
  }
  if (const at::Tensor tokens = sum_of_token_terms(call, s.scale, type); tokens.defined()) {
    scores = scores + tokens;
  }
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    if (!std::holds_alternative<RelativeQuery>(call.prepared->spec.encodings[e])) continue;
    scores = scores + relative_term(call, e, parameters[e], s.plain_q, s.scale);
  }
  for (const Encoding& encoding : call.prepared->spec.encodings) {
    const auto* softcap = std::get_if<Softcap>(&encoding);
    if (softcap != nullptr) scores = softcap->value(formulas::Numbers{scores}).all;
  }
  const at::Tensor none = s.visible.any(-1, true).logical_not();
  Weighed row;
  if (call.prepared->plan.terms().breaks_sticks) {
    row = break_sticks(scores, s.visible);
  } else {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    row = softmax(scores.masked_fill(s.visible.logical_not(), kHidden), none,
                  sink_logit(call, parameters, type));
  }
  result.weights = row.weights;
  result.lse = row.lse.detach()
                   .masked_fill(none, -std::numeric_limits<double>::infinity())
                   .squeeze(-1)
                   .expand({call.q.size(0), call.q.size(1), call.q.size(2)})
                   .contiguous();
  at::Tensor kept = result.weights;
  if (call.dropout.active()) kept = kept * dropout_factors(call.dropout, kept);
  const at::Tensor sum = at::matmul(kept, rotated_values(call, parameters, false, v));
  result.out = rotated_values(call, parameters, true, sum).to(call.q.scalar_type());
  return result;
}

}  // namespace

ComposedResult composed_attention(const ComposedCall& call) {
  const NonFinite non_finite(call, {});
  ComposedResult result = compose(non_finite.cleaned());
  non_finite.mark(result);
  return result;
}

AttentionBackward composed_attention_backward(const ComposedCall& call, const at::Tensor& grad_out,
                                              bool wants_parameters) {
  const NonFinite non_finite(call, grad_out);
  const WithAutograd enabled;
  ComposedCall leaves = non_finite.cleaned();
  Tensors wanted;
  for (at::Tensor* x : {&leaves.q, &leaves.k, &leaves.v}) wanted.push_back(*x = leaf(*x));
  for (at::Tensor& input : leaves.inputs) wanted.push_back(input = leaf(input));
  if (wants_parameters) wanted.push_back(leaves.parameters = leaf(leaves.parameters));
  const at::Tensor out = compose(leaves).out;
  auto g = torch::autograd::grad({out}, wanted, {non_finite.grad_out().to(out.scalar_type())},
                                 false, false, true);
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!g[i].defined()) g[i] = at::zeros(wanted[i].sizes(), wanted[i].options());
  }
  const auto inputs = g.begin() + 3;
  AttentionBackward gradients{g[0],
                              g[1],
                              g[2],
                              {inputs, inputs + static_cast<std::ptrdiff_t>(leaves.inputs.size())},
                              wants_parameters ? g.back() : at::zeros_like(call.parameters)};
  non_finite.mark(gradients);
  return gradients;
}

}  // namespace posenc::ops
