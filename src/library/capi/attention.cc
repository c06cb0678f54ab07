#include "posenc/kernels/attention.h"

#include <cmath>

#include "capi/arguments.h"
#include "kernels/attention_call.h"

namespace posenc::capi {
namespace {

constexpr const char* kOp = "attention";

posenc_attention_call read_call(const char* name, const posenc_attention_call* given) {
  const auto c = read_struct(kOp, name, given, offsetof(posenc_attention_call, parameters));
  required(kOp, "plan", c.plan);
  return c;
}

// As many as the plan's spec reads: a wrong count is found before a tensor is.
std::vector<TensorView> tensors_of(const char* op, const char* name, const posenc_plan& plan,
                                   const posenc_tensor* tensors, std::size_t count) {
  const Terms& terms = plan.plan->terms();
  if (count != terms.inputs.size()) {
    fail(StatusCode::kInvalidArgument, "[%s] %s must be %s but got %zu tensors", op, name,
         terms.input_names.c_str(), count);
  }
  if (count > 0) required(op, name, tensors);
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < count; ++i) views.push_back(tensor_of(op, name, tensors[i]));
  return views;
}

// A call and the list that it points into.
struct Call {
  AttentionCall call;
  std::vector<ConstTensorView> inputs;
};

// All but the parameters and inputs.
AttentionCall call_of(const posenc_attention_call& c) {
  AttentionCall call;
  call.plan = c.plan->plan.get();
  call.q = tensor_of(kOp, "q", c.q);
  call.k = tensor_of(kOp, "k", c.k);
  call.v = tensor_of(kOp, "v", c.v);
  call.out = tensor_of(kOp, "out", c.out);
  call.lse = span_of(kOp, "lse", c.lse, c.lse_count);
  call.block_table = block_table_of(kOp, c.block_table, call.q.batch());
  ConstTensorView keys = call.k;  // as many as masks and positions have
  if (call.block_table.given()) {
    keys.shape[0] = call.q.batch();
    keys.shape[2] = call.block_table.longest();
  }
  call.mask = mask_of(kOp, c.mask, keys);
  call.q_positions = positions_of(kOp, "q_positions", c.q_positions,
                                  {call.q.batch(), call.q.tokens(), c.plan->axes});
  call.k_positions =
      positions_of(kOp, "k_positions", c.k_positions, {keys.batch(), keys.tokens(), c.plan->axes});
  if (!std::isfinite(c.scale)) {
    fail(StatusCode::kOutOfRange, "[attention] scale must be finite but got %g", c.scale);
  }
  if (c.scale != 0.0) call.scale = c.scale;
  call.dropout = {c.dropout_rate, c.dropout_seed};
  call.keys_are_turned = read_flag(kOp, "keys_are_turned", c.keys_are_turned);
  call.allow_reference = read_flag(kOp, "allow_reference", c.allow_reference);
  call.k_scales = tensor_of(kOp, "k_scales", c.k_scales);
  call.v_scales = tensor_of(kOp, "v_scales", c.v_scales);
  return call;
}

Call complete_call_of(const posenc_attention_call& c) {
  required_tensor(kOp, "q", c.q);
  required_tensor(kOp, "k", c.k);
  required_tensor(kOp, "v", c.v);
  required_tensor(kOp, "out", c.out);
  Call whole{.call = call_of(c), .inputs = {}};
  const auto views = tensors_of(kOp, "inputs", *c.plan, c.inputs, c.input_count);
  whole.inputs.assign(views.begin(), views.end());
  whole.call.inputs = whole.inputs;
  whole.call.parameters = values_of(kOp, *c.plan, c.parameters).get();
  return whole;
}

Status backward(const posenc_attention_backward_call* given) {
  const char* op = "attention_backward";
  const auto c = read_struct(op, "call", given, offsetof(posenc_attention_backward_call, dinputs));
  const posenc_attention_call forward = read_call("forward", c.forward);
  const Call complete = complete_call_of(forward);
  const auto dinputs = tensors_of(op, "dinputs", *forward.plan, c.dinputs, c.dinput_count);
  AttentionBackwardCall call;
  call.forward = complete.call;
  call.grad_out = required_tensor(op, "grad_out", c.grad_out);
  call.dq = required_tensor(op, "dq", c.dq);
  call.dk = required_tensor(op, "dk", c.dk);
  call.dv = required_tensor(op, "dv", c.dv);
  call.dinputs = dinputs;
  call.dparameters = gradients_of(op, *forward.plan, call.forward.parameters, c.dparameters);
  return attention_backward(call);
}

}  // namespace
}  // namespace posenc::capi

using posenc::capi::guarded;

extern "C" {

posenc_status posenc_attention(const posenc_attention_call* call) noexcept {
  return guarded([&] {
    return attention(posenc::capi::complete_call_of(posenc::capi::read_call("call", call)).call);
  });
}

posenc_status posenc_attention_backward(const posenc_attention_backward_call* call) noexcept {
  return guarded([&] { return posenc::capi::backward(call); });
}

int64_t posenc_attention_explain(const posenc_attention_call* call, char* buffer,
                                 size_t capacity) noexcept {
  return guarded([&] {
    const auto described = posenc::capi::call_of(posenc::capi::read_call("call", call));
    return posenc::capi::write_text("attention_explain", explain(described), buffer, capacity);
  });
}

}  // extern "C"
