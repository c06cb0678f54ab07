#include "torch/composed/composed.h"

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "torch/composed/biases.h"
#include "torch/composed/chain.h"
#include "torch/composed/non_finite.h"
#include "torch/composed/numbers.h"
#include "torch/composed/rotations.h"

namespace posenc::ops {
namespace {

using Tensors = std::vector<at::Tensor>;

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
  const auto add_bias = [&]<class E>([[maybe_unused]] const E& encoding,
                                     [[maybe_unused]] const Tensors& own) {
    if constexpr (std::same_as<E, Fire>) {
      add(fire_bias(encoding, own, i, j).to(type));
    } else if constexpr (PlaneBias<E>) {
      call.tokens->check_same_axes();
      add(plane_bias(encoding, own, call.tokens->q_positions(), call.tokens->k_positions())
              .to(type));
    } else if constexpr (DistanceBias<E>) {
      const at::Tensor distance = i.unsqueeze(2) - j.unsqueeze(1);  // [B or 1, Tq, Tk]
      add(toeplitz_bias(encoding, own, distance).transpose(0, 1).to(type));
    } else {
      static_assert(E::kTraits.site != Site::kBias, "a bias that is not composed");
    }
  };
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    std::visit([&](const auto& one) { add_bias(one, parameters[e]); },
               call.prepared->spec.encodings[e]);
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
  at::Tensor up_to = at_query.unsqueeze(3) - at_key.unsqueeze(2);
  if (!form.both_sides) return up_to;
  // The sums before a token: without its own number.
  const at::Tensor own = at::matmul(x, call.tokens->own_keys().t());
  const at::Tensor after = (at_key - x).unsqueeze(2) - (at_query - own).unsqueeze(3);
  const at::Tensor later =
      call.tokens->q_places().unsqueeze(1) < call.tokens->k_places().unsqueeze(0);
  return at::where(later, after, up_to);
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

// Rows of an input at the queries' own tokens, [B, H, Tq, channels]; 0 where a query has none.
at::Tensor own_rows(const ComposedCall& call, const at::Tensor& input) {
  const at::Tensor own = call.tokens->own_key_index();
  return input.index_select(2, own.clamp_min(0)).masked_fill((own < 0).reshape({1, 1, -1, 1}), 0.0);
}

// Entries of the table at distances of any shape; -1 where there is none. Found on the host, where the formula is, and
// far distances share theirs.
at::Tensor relative_entries(const RelativeQuery& config, const at::Tensor& distance) {
  const std::int64_t reach = config.reach() + 1;
  at::Tensor entries = at::empty({2 * reach + 1}, at::kLong);
  auto* to = entries.data_ptr<std::int64_t>();
  for (std::int64_t d = -reach; d <= reach; ++d) *to++ = config.entry(d);
  return entries.to(distance.device()).index({distance.clamp(-reach, reach) + reach});
}

at::Tensor relative_term(const ComposedCall& call, const RelativeQuery& config, std::size_t index,
                         const Tensors& parameters, const at::Tensor& plain_q,
                         const at::Tensor& plain_k, double scale) {
  const Terms& terms = call.prepared->plan.terms();
  const auto type = plain_q.scalar_type();
  at::Tensor u = config.of_keys() ? plain_k : plain_q;
  if (config.vectors) u = u + parameters[2].to(type).unsqueeze(1);  // [H, 1, D]
  if (config.reads_input()) {
    u = own_rows(call, call.inputs[first_input(terms.inputs, index)]).to(type);
  }
  const at::Tensor products =
      products_with(u, parameters[0].to(type)) * config.factor(scale);  // [B, H, T, entries]
  const at::Tensor distance = call.tokens->q_positions().select(2, 0).unsqueeze(2) -
                              call.tokens->k_positions().select(2, 0).unsqueeze(1);
  const at::Tensor entry = relative_entries(config, distance).unsqueeze(1);
  const at::Tensor known =
      entry.clamp_min(0).expand({products.size(0), products.size(1), entry.size(2), entry.size(3)});
  const at::Tensor term = config.of_keys()
                              ? products.gather(-1, known.transpose(-1, -2)).transpose(-1, -2)
                              : products.gather(-1, known);
  return term.masked_fill(entry < 0, 0.0);
}

// m_h times the logarithms of the steps from a key to the query, [B, H, Tq, Tk]. Sums are float64.
at::Tensor path_term(const ComposedCall& call, const GrapeAp& config, std::size_t index,
                     const Tensors& parameters, const at::Tensor& visible, at::ScalarType type) {
  const Terms& terms = call.prepared->plan.terms();
  const std::size_t first = first_input(terms.inputs, index);
  const at::Tensor p = own_rows(call, call.inputs[first]).to(type);
  const at::Tensor e = call.inputs[first + (config.separate ? 1 : 0)].to(type);
  const at::Tensor steps = at::matmul(p, e.transpose(-1, -2)) * config.factor();
  const at::Tensor own = call.tokens->own_key_index().ge(0).reshape({1, 1, -1, 1});
  const at::Tensor passed =
      visible & own &
      (call.tokens->q_places().unsqueeze(1) >= call.tokens->k_places().unsqueeze(0));
  const at::Tensor costs =
      at::log_sigmoid(steps).masked_fill(passed.logical_not(), 0.0).to(at::kDouble);
  const at::Tensor sums = costs.flip(-1).cumsum(-1).flip(-1) - costs;  // of the keys after each
  return parameters[0].reshape({1, -1, 1, 1}).to(type) * sums.to(type);
}

// Queries as the product with keys has them: with the vectors of Transformer-XL.
at::Tensor with_content(const ComposedCall& call, const std::vector<Tensors>& parameters,
                        at::Tensor q) {
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    const auto* config = std::get_if<RelativeQuery>(&call.prepared->spec.encodings[e]);
    if (config == nullptr || !config->vectors) continue;
    q = q + parameters[e][1].to(q.scalar_type()).unsqueeze(1);  // [H, 1, D]
  }
  return q;
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

at::Tensor visible_keys(const ComposedCall& call) {
  at::Tensor visible = call.tokens->visible();
  if (!call.prepared->plan.terms().breaks_sticks) return visible;
  return visible & (call.tokens->q_places().unsqueeze(1) > call.tokens->k_places().unsqueeze(0));
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

// Float rows of all key heads, repeated for the query heads that share them.
at::Tensor by_query_head(const ComposedCall& call, const at::Tensor& x, at::ScalarType type) {
  const std::int64_t sharing = call.q.size(1) / std::max<std::int64_t>(call.k.size(1), 1);
  return x.to(type).repeat_interleave(sharing, 1);
}

// Adds an encoding of site 4 to the scores. Encodings without a place in compose() do not compile.
struct AddContent {
  const ComposedCall& call;
  const std::vector<Tensors>& parameters;
  const Scores& s;
  const at::Tensor& k;  // [B, H, Tk, D], before site 2
  const at::Tensor& v;
  std::size_t index;
  at::Tensor& scores;
  at::Tensor& cope_positions;  // of the first cope

  void operator()(const Cope& cope) const {
    Scores seen = s;
    if (cope.gate_source == Cope::GateSource::kValue) seen.gates = v;
    if (cope.gate_source == Cope::GateSource::kSeparate) {
      const auto& inputs = call.prepared->plan.terms().inputs;
      seen.gates = by_query_head(call, call.inputs[first_input(inputs, index)], k.scalar_type());
    }
    const CopeTerm term = cope_term(cope, parameters[index], seen);
    scores = scores + term.logits;
    if (!cope_positions.defined()) cope_positions = term.positions;
  }
  void operator()(const RelativeQuery& relative) const {
    scores =
        scores + relative_term(call, relative, index, parameters[index], s.plain_q, k, s.scale);
  }
  void operator()(const GrapeAp& grape) const {
    scores = scores + path_term(call, grape, index, parameters[index], s.visible, k.scalar_type());
  }
  template <class E>
  void operator()(const E& /*encoding*/) const {
    constexpr bool kTurns = RotaryEncoding<E> || ChainEncoding<E> || std::same_as<E, Temperature>;
    constexpr bool kOfRow =
        std::same_as<E, Sink> || std::same_as<E, Softcap> || std::same_as<E, StickBreaking>;
    static_assert(E::kTraits.site <= Site::kInput || E::kTraits.site == Site::kBias || kTurns ||
                      TokenTerm<E> || kOfRow,
                  "an encoding that is not composed");
  }
};

// Of finite tokens.
ComposedResult compose(const ComposedCall& call) {
  const auto type = call.q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::vector<Tensors> parameters = parameter_tensors(*call.prepared, call.parameters);
  Scores s;
  s.plain_q = call.q.to(type);
  s.scale = scale_of(call);
  s.visible = visible_keys(call);
  const at::Tensor v = by_query_head(call, call.v, type);
  const at::Tensor k = by_query_head(call, call.k, type);
  const at::Tensor turned_q =
      rotated(call, parameters, Role::kQuery, with_content(call, parameters, s.plain_q));
  const at::Tensor turned_k = call.keys_are_turned ? k : rotated(call, parameters, Role::kKey, k);
  const bool chains = call.prepared->plan.terms().chain.has_value();
  s.raw = (chains ? chained_products(call, turned_q, turned_k)
                  : at::matmul(turned_q, turned_k.transpose(-1, -2))) *
          s.scale;
  s.bias = sum_of_biases(call, parameters, type);
  ComposedResult result;
  at::Tensor scores = s.bias.defined() ? s.raw + s.bias : s.raw;
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    std::visit(AddContent{call, parameters, s, k, v, e, scores, result.cope_positions},
               call.prepared->spec.encodings[e]);
  }
  if (const at::Tensor tokens = sum_of_token_terms(call, s.scale, type); tokens.defined()) {
    scores = scores + tokens;
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
  check_gates(call);
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
