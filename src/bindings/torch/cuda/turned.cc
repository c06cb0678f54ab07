#include "torch/cuda/turned.h"

#include <torch/csrc/autograd/autograd.h>

#include "torch/composed/biases.h"
#include "torch/composed/rotations.h"

namespace posenc::ops {

Turned::Turned(const CudaCall& call)
    : call_(call), q(aligned(call.composed().q)), k(aligned(call.composed().k)) {
  const auto& terms = call.terms();
  if (terms.rotary.empty() && terms.temperatures.empty()) return;
  of_q_ = call.tokens().side(Role::kQuery);
  of_k_ = call.tokens().side(Role::kKey);
  parameters_ = parameter_tensors(*call.composed().prepared, call.composed().parameters);
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    reads_inputs_ = reads_inputs_ || rope_of_input(terms, r) != nullptr;
  }
  if (reads_inputs_) {
    compose_site();
    return;
  }
  const PositionRange range{std::min(of_q_.least, of_k_.least), std::max(of_q_.most, of_k_.most)};
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    const auto& own = parameters_[terms.rotary[r]];
    rotations_.emplace_back(*call.composed().prepared, r, own.empty() ? at::Tensor() : own[0],
                            range, call.device());
    q_inputs_.push_back(q);
    k_inputs_.push_back(k);
    forward(r);
  }
  multiply_queries();
}

// In one pass: the product is rounded once, to the type of the queries.
void Turned::multiply_queries() {
  const at::Tensor factors = query_factors(call_.terms(), call_.tokens(), parameters_);
  if (!factors.defined()) return;
  factors_ = factors.to(at::kFloat);
  before_factors_ = q;
  q = at::empty(q.sizes(), q.options());
  at::mul_out(q, before_factors_, factors_);
}

void Turned::factors_backward(const at::Tensor& dq,
                              std::vector<std::vector<at::Tensor>>* gradients) const {
  const auto& terms = call_.terms();
  for (const std::size_t index : terms.temperatures) {
    if (gradients == nullptr || parameters_[index].empty()) continue;
    const at::Tensor product =
        (dq.to(at::kFloat) * before_factors_.to(at::kFloat)).sum(-1, true, at::kDouble);
    const at::Tensor others = query_factors(terms, call_.tokens(), parameters_, index);
    (*gradients)[index] = {(product * others).sum(at::IntArrayRef({0, 2, 3}))};
  }
  at::Tensor in_place = dq;
  at::mul_out(in_place, dq, factors_);
}

void Turned::compose_site() {
  const ComposedCall& call = call_.composed();
  q = aligned(rotated_rows(call, parameters_, Role::kQuery, call.q));
  if (!call.keys_are_turned) k = aligned(rotated_rows(call, parameters_, Role::kKey, call.k));
}

void Turned::composed_backward(const at::Tensor& dq, const at::Tensor& dk,
                               std::vector<std::vector<at::Tensor>>* gradients) const {
  const WithAutograd enabled;
  ComposedCall call = call_.composed();
  std::vector<at::Tensor> leaves;
  const auto leaf = [&](const at::Tensor& x) {
    leaves.push_back(x.detach().set_requires_grad(true));
    return leaves.back();
  };
  call.q = leaf(call.q);
  call.k = leaf(call.k);
  for (at::Tensor& input : call.inputs) input = leaf(input);
  auto parameters = parameters_;
  std::vector<std::size_t> owners;
  for (std::size_t e = 0; e < parameters.size(); ++e) {
    const bool here = traits(call_.terms().spec.encodings[e]).site == Site::kQueryKey;
    if (!here || parameters[e].empty()) continue;
    parameters[e][0] = leaf(parameters[e][0]);
    owners.push_back(e);
  }
  std::vector<at::Tensor> results = {rotated_rows(call, parameters, Role::kQuery, call.q)};
  std::vector<at::Tensor> outer = {dq};
  if (!call.keys_are_turned) {
    results.push_back(rotated_rows(call, parameters, Role::kKey, call.k));
    outer.push_back(dk);
  }
  const auto g = torch::autograd::grad(results, leaves, outer, false, false, true);
  at::Tensor to_q = dq;
  to_q.copy_(g[0]);
  at::Tensor to_k = dk;
  if (!call.keys_are_turned) to_k.copy_(g[1]);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) input_gradients_.push_back(g[2 + i]);
  for (std::size_t n = 0; gradients != nullptr && n < owners.size(); ++n) {
    (*gradients)[owners[n]] = {g[2 + call.inputs.size() + n]};
  }
}

at::Tensor Turned::input_gradient(std::size_t input) const {
  return input < input_gradients_.size() ? input_gradients_[input] : at::Tensor();
}

double Turned::softmax_factor() const {
  double factor = 1.0;
  for (const Rotary& rotary : call_.terms().rotations) factor *= rotary.softmax_factor;
  return factor;
}

void Turned::backward(const at::Tensor& dq, const at::Tensor& dk,
                      std::vector<std::vector<at::Tensor>>* gradients) const {
  if (reads_inputs_) {
    composed_backward(dq, dk, gradients);
    return;
  }
  if (factors_.defined()) factors_backward(dq, gradients);
  const at::Tensor keys = call_.composed().keys_are_turned ? at::Tensor() : dk;
  for (std::size_t r = rotations_.size(); r-- > 0;) {
    const std::size_t index = call_.terms().rotary[r];
    if (gradients != nullptr && !parameters_[index].empty()) {
      (*gradients)[index] = {frequency_gradient(r, dq, keys)};
    }
    turn(r, {dq, keys, dq, keys}, true);
  }
}

at::Tensor Turned::frequency_gradient(std::size_t r, const at::Tensor& dq,
                                      const at::Tensor& dk) const {
  const CudaRotation& rotation = rotations_[r];
  at::Tensor sum = rotation.frequency_gradient(q_inputs_[r], {}, dq, {}, of_q_.ids);
  if (dk.defined()) {
    sum = sum + rotation.frequency_gradient(k_inputs_[r], {}, dk, {}, of_k_.ids);
  }
  return rotation.alpha_gradient(sum);
}

// Whether queries and keys stand at the same places, so that one launch turns both.
bool Turned::together() const {
  return !of_q_.ids.defined() && !of_k_.ids.defined() && q.size(2) == k.size(2);
}

void Turned::turn(std::size_t r, const CudaRotation::Sides& sides, bool transposed) const {
  const CudaRotation& rotation = rotations_[r];
  if (together() && sides.k.defined()) {
    rotation.turn(sides, {}, transposed);
    return;
  }
  rotation.turn_one(Role::kQuery, sides.q, sides.q_out, of_q_.ids, transposed);
  if (!sides.k.defined()) return;
  rotation.turn_one(Role::kKey, sides.k, sides.k_out, of_k_.ids, transposed);
}

void Turned::forward(std::size_t r) {
  const bool keys = !call_.composed().keys_are_turned;
  CudaRotation::Sides sides{q, {}, at::empty(q.sizes(), q.options()), {}};
  if (keys) {
    sides.k = k;
    sides.k_out = at::empty(k.sizes(), k.options());
  }
  turn(r, sides, false);
  q = sides.q_out;
  if (keys) k = sides.k_out;
}

}  // namespace posenc::ops
