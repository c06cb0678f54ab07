#include "torch/composed/rotations.h"

#include "torch/composed/biases.h"
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

}  // namespace

at::Tensor running_sums(const Tokens& tokens, at::Tensor x) {
  if (tokens.key_mask().defined()) {
    x = x * tokens.key_mask().ne(0).reshape({x.size(0), 1, -1, 1}).to(at::kDouble);
  }
  const at::Tensor sums = x.cumsum(2);
  const at::Tensor first = tokens.first_of_sequence();
  return sums - sums.index_select(2, first) + x.index_select(2, first);
}

namespace {

// Angles that an input gives to the tokens of a side, [B, Hkv, T, pairs] in float64.
at::Tensor angles_of_input(const ComposedCall& call, std::size_t r, Role role) {
  const Terms& terms = call.prepared->plan.terms();
  const Rope& rope = *rope_of_input(terms, r);
  const Rotary& rotary = terms.rotations[r];
  at::Tensor x = call.inputs[first_input(terms.inputs, terms.rotary[r])].to(at::kDouble);
  if (rope.running) x = running_sums(*call.tokens, x);
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

}  // namespace

at::Tensor rotated_values(const ComposedCall& call, const std::vector<Tensors>& parameters,
                          bool back, at::Tensor x) {
  const Terms& terms = call.prepared->plan.terms();
  for (std::size_t n = 0; terms.rotates_values && n < terms.rotary.size(); ++n) {
    const std::size_t r = back ? terms.rotary.size() - 1 - n : n;
    const auto* rope = terms.config<Rope>(terms.rotary[r]);
    if (rope == nullptr || !rope->values) continue;
    const Role role = back ? Role::kQuery : Role::kKey;
    x = turned_by(call, parameters, r, {.role = role, .back = back, .of_values = true}, x);
  }
  return x;
}

at::Tensor query_factors(const Terms& terms, const Tokens& tokens,
                         const std::vector<std::vector<at::Tensor>>& parameters,
                         std::optional<std::size_t> without) {
  at::Tensor product;
  for (const std::size_t index : terms.temperatures) {
    const auto& config = *terms.config<Temperature>(index);
    const at::Tensor positions = tokens.q_positions().select(2, 0).to(at::kDouble);
    at::Tensor one = config.factor(formulas::Numbers{positions}).all.unsqueeze(1).unsqueeze(3);
    if (config.trained() && index != without) {
      one = one * parameters[index][0].to(at::kDouble).reshape({1, -1, 1, 1});
    }
    product = product.defined() ? product * one : one;
  }
  return product;
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

at::Tensor composed_rotation(const Encoding& encoding, const ModelShape& shape,
                             const Lengths& lengths, Role role, const at::Tensor& x,
                             const at::Tensor& positions, const at::Tensor& alpha) {
  const Rotary rotary = rotary_of(encoding, shape, lengths);
  const at::Tensor angle = angle_of(rotary, positions, alpha);
  const at::Tensor magnitude = magnitude_of(rotary, role, positions);
  return turned(rotary, by_head({magnitude * angle.cos(), magnitude * angle.sin()}, x), x);
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

}  // namespace posenc::ops
