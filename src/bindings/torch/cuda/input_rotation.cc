#include "torch/cuda/input_rotation.h"

#include "torch/composed/rotations.h"
#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

// Whether every query is the key of its index.
bool same_tokens(const CudaCall& call) {
  const Tokens& tokens = call.tokens();
  if (call.composed().q.size(2) != call.composed().k.size(2)) return false;
  return tokens.cu_queries().empty() || tokens.cu_keys().empty() ||
         tokens.cu_queries() == tokens.cu_keys();
}

at::Tensor frequencies_of(const Rotary& rotary, std::int64_t heads) {
  std::vector<at::Tensor> rows;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::size_t group = static_cast<std::size_t>(rotary.group_of(h, heads));
    rows.push_back(at::tensor(rotary.inv_freq[group], at::kDouble));
  }
  return at::stack(rows);
}

}  // namespace

InputRotation::InputRotation(const CudaCall& call, std::size_t rotation)
    : call_(call),
      rope_(*rope_of_input(call.terms(), rotation)),
      rotary_(call.terms().rotations[rotation]) {
  const Terms& terms = call.terms();
  input_ = call.composed().inputs[first_input(terms.inputs, terms.rotary[rotation])];
  angles_ = rope_.running ? running_sums(call.tokens(), input_.to(at::kDouble)).contiguous()
                          : input_.to(at::kFloat).contiguous();
  if (rope_.angles == Rope::Angles::kInputPosition) {
    const std::string name = "frequencies of heads " + std::to_string(rotation);
    frequencies_ = call.composed().prepared->device_constants.get(
        name, call.device(), [&] { return frequencies_of(rotary_, angles_.size(1)); });
  }
  if (!same_tokens(call)) own_key_ = call.tokens().own_key_index().contiguous();
}

cuda::GivenAngles InputRotation::angles(Role role) const {
  cuda::GivenAngles given;
  given.data = angles_.data_ptr();
  given.is_float64 = angles_.scalar_type() == at::kDouble;
  given.heads = angles_.size(1);
  given.tokens = angles_.size(2);
  if (frequencies_.defined()) given.frequencies = frequencies_.data_ptr<double>();
  if (role == Role::kQuery && own_key_.defined()) {
    given.token_of_row = own_key_.data_ptr<std::int64_t>();
  }
  return given;
}

void InputRotation::rotate_one(Role role, const at::Tensor& x, const at::Tensor& out) const {
  cuda::RopeAnglesCall call;
  call.q = view_of(x);
  call.q_out = view_of(out);
  call.rotary = &rotary_;
  call.angles = angles(role);
  cuda::rope_by_angles(call, current_stream(call_.device())).throw_if_error();
}

void InputRotation::rotate(const CudaRotation::Sides& sides) const {
  if (own_key_.defined() || !sides.k.defined()) {
    rotate_one(Role::kQuery, sides.q, sides.q_out);
    if (sides.k.defined()) rotate_one(Role::kKey, sides.k, sides.k_out);
    return;
  }
  cuda::RopeAnglesCall call;
  call.q = view_of(sides.q);
  call.q_out = view_of(sides.q_out);
  call.k = view_of(sides.k);
  call.k_out = view_of(sides.k_out);
  call.rotary = &rotary_;
  call.angles = angles(Role::kQuery);
  cuda::rope_by_angles(call, current_stream(call_.device())).throw_if_error();
}

cuda::RopeAnglesGradientCall InputRotation::gradient_call(Role role, const at::Tensor& x,
                                                          const at::Tensor& dx,
                                                          const at::Tensor& dangles) const {
  cuda::RopeAnglesGradientCall call;
  call.q = view_of(x);
  call.dq_out = view_of(dx);
  call.dq = view_of(dx);
  call.rotary = &rotary_;
  call.angles = angles(role);
  call.dangles = dangles.data_ptr<float>();
  return call;
}

at::Tensor InputRotation::backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& dq,
                                   const at::Tensor& dk) const {
  const at::Tensor dangles = at::empty(angles_.sizes(), angles_.options().dtype(at::kFloat));
  const cuda::Stream stream = current_stream(call_.device());
  cuda::RopeAnglesGradientCall of_queries = gradient_call(Role::kQuery, q, dq, dangles);
  if (own_key_.defined()) {
    // Keys write the angles of all tokens; queries add to those of their tokens.
    if (dk.defined()) {
      cuda::rope_by_angles_backward(gradient_call(Role::kKey, k, dk, dangles), stream)
          .throw_if_error();
    } else {
      dangles.zero_();
    }
    of_queries.adds = true;
  } else if (dk.defined()) {
    of_queries.k = view_of(k);
    of_queries.dk_out = view_of(dk);
    of_queries.dk = view_of(dk);
  }
  cuda::rope_by_angles_backward(of_queries, stream).throw_if_error();
  return (rope_.running ? gradient_of_steps(dangles) : dangles).to(input_.scalar_type());
}

// A step is part of the sums of all tokens from its own to the end of its sequence.
at::Tensor InputRotation::gradient_of_steps(const at::Tensor& dsums) const {
  const Tokens& tokens = call_.tokens();
  at::Tensor after = dsums.to(at::kDouble).flip(2).cumsum(2).flip(2);
  if (tokens.packed()) {
    const auto& cu = tokens.cu_keys().empty() ? tokens.cu_queries() : tokens.cu_keys();
    std::vector<std::int64_t> ends;
    for (std::size_t s = 0; s + 1 < cu.size(); ++s) {
      ends.insert(ends.end(), static_cast<std::size_t>(cu[s + 1] - cu[s]), cu[s + 1]);
    }
    const at::Tensor index = at::tensor(ends, at::kLong).to(call_.device());
    after = after - at::constant_pad_nd(after, {0, 0, 0, 1}).index_select(2, index);
  }
  if (!tokens.key_mask().defined()) return after;
  return after * tokens.key_mask().ne(0).reshape({after.size(0), 1, -1, 1}).to(at::kDouble);
}

}  // namespace posenc::ops
