#include "torch/composed/non_finite.h"

#include <limits>

#include "torch/composed/chain.h"

namespace posenc::ops {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Tokens that hold a NaN or an infinity, [B, H, T, 1].
at::Tensor marks_of(const at::Tensor& x) { return x.isfinite().all(-1, true).logical_not(); }

at::Tensor without(const at::Tensor& marks, const at::Tensor& x) {
  return at::where(marks, at::zeros({}, x.options()), x);
}

bool gates_read_values(const Spec& spec) {
  return std::any_of(spec.encodings.begin(), spec.encodings.end(), [](const Encoding& e) {
    const auto* cope = std::get_if<Cope>(&e);
    return cope != nullptr && cope->gate_source == Cope::GateSource::kValue;
  });
}

}  // namespace

NonFinite::NonFinite(const ComposedCall& call, const at::Tensor& grad_out)
    : cleaned_(call), grad_out_(grad_out), visible_(visible_keys(call)) {
  at::Tensor q = marks_of(call.q);
  const at::Tensor k = marks_of(call.k);
  const at::Tensor v = marks_of(call.v);
  cleaned_.q = without(q, call.q);
  cleaned_.k = without(k, call.k);
  cleaned_.v = without(v, call.v);
  at::Tensor for_weights = gates_read_values(call.prepared->spec) ? k.logical_or(v) : k;
  for (std::size_t i = 0; i < cleaned_.inputs.size(); ++i) {
    at::Tensor& input = cleaned_.inputs[i];
    const InputInfo::Readers& readers = readers_of(i);
    // A gate of Wall may be 0: its logarithm is -infinity.
    if (is_log_gate(i)) input = input.clamp_min(kLowestLogGate);
    at::Tensor marks = marks_of(input);
    input = without(marks, input);
    if (readers.sums) marks = at_or_after(marks);
    marks = by_query_head(marks);
    if (readers.own_query) {
      q = q.logical_or(at::matmul(call.tokens->own_keys(), marks.to(at::kDouble)) > 0);
    }
    if (readers.steps) {
      q = q.logical_or(at::matmul(steps().to(at::kFloat), marks.to(at::kFloat)) > 0);
    }
    if (readers.other_queries) for_weights = by_query_head(for_weights).logical_or(marks);
  }
  const at::Tensor sees = visible_.any(-1, true);
  weights_ = queries_that_see(for_weights).logical_or(q.logical_and(sees));
  out_ = weights_.logical_or(queries_that_see(v));
  gradient_ = out_;
  if (!grad_out.defined()) return;
  const at::Tensor g = marks_of(grad_out);
  grad_out_ = without(g, grad_out);
  gradient_ = out_.logical_or(g.logical_and(sees));
  weights_ = weights_.logical_or(g.logical_and(sees));  // what dv reads
}

bool NonFinite::is_log_gate(std::size_t input) const {
  const Terms& terms = cleaned_.prepared->plan.terms();
  return terms.config<Wall>(terms.inputs[input].encoding) != nullptr;
}

at::Tensor NonFinite::by_query_head(const at::Tensor& keys) const {
  return keys.repeat_interleave(cleaned_.q.size(1) / std::max<std::int64_t>(keys.size(1), 1), 1);
}

at::Tensor NonFinite::steps() const {
  const at::Tensor seen = visible_.to(at::kLong);
  at::Tensor steps = (seen.cumsum(-1) - seen > 0) & (cleaned_.tokens->key_counts(Role::kQuery) > 0);
  const at::Tensor mask = cleaned_.tokens->key_mask();
  if (mask.defined()) steps = steps & mask.ne(0).reshape({mask.size(0), 1, 1, -1});
  return steps;
}

at::Tensor NonFinite::queries_that_see(const at::Tensor& keys) const {
  return at::matmul(visible_.to(at::kFloat), by_query_head(keys).to(at::kFloat)) > 0;
}

at::Tensor NonFinite::keys_seen_by(const at::Tensor& queries, std::int64_t heads) const {
  return keys_of(visible_, queries, heads);
}

at::Tensor NonFinite::keys_of(const at::Tensor& seen, const at::Tensor& queries,
                              std::int64_t heads) {
  const at::Tensor by_head =
      at::matmul(seen.to(at::kFloat).transpose(-1, -2), queries.to(at::kFloat)) > 0;
  return by_head.reshape({by_head.size(0), heads, -1, by_head.size(2), 1}).any(2);
}

// Tokens of a sum up to which one of `keys` reads it, other than hidden ones.
at::Tensor NonFinite::at_or_before(const at::Tensor& keys) const {
  const at::Tensor counts = cleaned_.tokens->key_counts(Role::kKey);
  const at::Tensor lost = at::matmul(counts.t(), keys.to(at::kDouble)) > 0;
  const at::Tensor mask = cleaned_.tokens->key_mask();
  return mask.defined() ? lost.logical_and(mask.ne(0).reshape({mask.size(0), 1, -1, 1})) : lost;
}

// Tokens whose sum has one of `keys` in it; hidden tokens add nothing to sums.
at::Tensor NonFinite::at_or_after(const at::Tensor& keys) const {
  at::Tensor added = keys;
  const at::Tensor mask = cleaned_.tokens->key_mask();
  if (mask.defined()) added = keys.logical_and(mask.ne(0).reshape({mask.size(0), 1, -1, 1}));
  return at::matmul(cleaned_.tokens->key_counts(Role::kKey), added.to(at::kDouble)) > 0;
}

void NonFinite::mark(ComposedResult& result) const {
  result.out = result.out.masked_fill(out_, kNaN);
  result.lse = result.lse.masked_fill(weights_.squeeze(-1), kNaN);
  result.weights = result.weights.masked_fill(weights_.logical_and(visible_), kNaN);
}

void NonFinite::mark(AttentionBackward& gradients) const {
  auto& [dq, dk, dv, dinputs, dparameters] = gradients;
  const at::Tensor keys = keys_seen_by(gradient_, dk.size(1));
  dq = dq.masked_fill(gradient_, kNaN);
  dk = dk.masked_fill(keys, kNaN);
  dv = dv.masked_fill(keys_seen_by(weights_, dv.size(1)), kNaN);
  const auto& terms = cleaned_.prepared->plan.terms();
  for (std::size_t i = 0; i < dinputs.size(); ++i) {
    const std::int64_t heads = dinputs[i].size(1);
    const InputInfo::Readers& readers = readers_of(i);
    at::Tensor lost = at::zeros({1, 1, 1, 1}, dinputs[i].options().dtype(at::kBool));
    if (readers.other_queries) lost = keys_seen_by(gradient_, heads);
    if (readers.steps) lost = keys_of(steps(), gradient_, heads);
    if (readers.own_query) {
      const at::Tensor own =
          at::matmul(cleaned_.tokens->own_keys().t(), gradient_.to(at::kDouble)) > 0;
      lost = lost.logical_or(own.reshape({own.size(0), heads, -1, own.size(2), 1}).any(2));
    }
    const auto form = token_form(terms.spec.encodings[terms.inputs[i].encoding], 1.0);
    if (readers.sums || (form && form->running)) lost = at_or_before(lost);
    dinputs[i] = dinputs[i].masked_fill(lost, kNaN);
  }
  dparameters = dparameters.masked_fill(gradient_.any(), kNaN);
}

}  // namespace posenc::ops
