#include "torch/cuda/turned.h"

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
  const PositionRange range{std::min(of_q_.least, of_k_.least), std::max(of_q_.most, of_k_.most)};
  for (std::size_t r = 0; r < terms.rotary.size(); ++r) {
    const auto& own = parameters_[terms.rotary[r]];
    if (rope_of_input(terms, r) != nullptr) {
      rotations_.emplace_back(std::in_place_type<InputRotation>, call, r);
    } else {
      rotations_.emplace_back(std::in_place_type<CudaRotation>, *call.composed().prepared, r,
                              own.empty() ? at::Tensor() : own[0], range, call.device());
    }
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

at::Tensor Turned::input_gradient(std::size_t input) const {
  const auto found = input_gradients_.find(input);
  return found == input_gradients_.end() ? at::Tensor() : found->second;
}

double Turned::softmax_factor() const {
  double factor = 1.0;
  for (const Rotary& rotary : call_.terms().rotations) factor *= rotary.softmax_factor;
  return factor;
}

void Turned::backward(const at::Tensor& dq, const at::Tensor& dk,
                      std::vector<std::vector<at::Tensor>>* gradients) const {
  if (factors_.defined()) factors_backward(dq, gradients);
  const at::Tensor keys = call_.composed().keys_are_turned ? at::Tensor() : dk;
  for (std::size_t r = rotations_.size(); r-- > 0;) {
    const std::size_t index = call_.terms().rotary[r];
    if (const auto* given = std::get_if<InputRotation>(&rotations_[r])) {
      input_gradients_[first_input(call_.terms().inputs, index)] =
          given->backward(q_inputs_[r], k_inputs_[r], dq, keys);
      continue;
    }
    if (gradients != nullptr && !parameters_[index].empty()) {
      (*gradients)[index] = {frequency_gradient(r, dq, keys)};
    }
    turn(r, {dq, keys, dq, keys}, true);
  }
}

at::Tensor Turned::frequency_gradient(std::size_t r, const at::Tensor& dq,
                                      const at::Tensor& dk) const {
  const auto& rotation = std::get<CudaRotation>(rotations_[r]);
  at::Tensor sum = rotation.frequency_gradient(q_inputs_[r], {}, dq, {}, of_q_.ids);
  if (dk.defined()) {
    sum = sum + rotation.frequency_gradient(k_inputs_[r], {}, dk, {}, of_k_.ids);
  }
  return rotation.alpha_gradient(sum);
}

// Whether queries and keys have the same positions, so that one launch rotates both.
bool Turned::together() const {
  return !of_q_.ids.defined() && !of_k_.ids.defined() && q.size(2) == k.size(2);
}

void Turned::turn(std::size_t r, const CudaRotation::Sides& sides, bool transposed) const {
  if (const auto* given = std::get_if<InputRotation>(&rotations_[r])) {
    given->rotate(sides);
    return;
  }
  const auto& rotation = std::get<CudaRotation>(rotations_[r]);
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
