#include "posenc/kernels/linear_attention.h"

#include "capi/linear_arguments.h"

namespace posenc::capi {
namespace {

constexpr const char* kOp = "linear_attention";

posenc_linear_attention_call read_call(const char* name,
                                       const posenc_linear_attention_call* given) {
  const auto c = read_struct(kOp, name, given, offsetof(posenc_linear_attention_call, parameters));
  required(kOp, "plan", c.plan);
  return c;
}

LinearAttentionCall call_of(const posenc_linear_attention_call& c) {
  LinearAttentionCall call;
  call.plan = c.plan->plan.get();
  call.parameters = values_of(kOp, *c.plan, c.parameters).get();
  call.q = required_tensor(kOp, "q", c.q);
  call.k = required_tensor(kOp, "k", c.k);
  call.v = required_tensor(kOp, "v", c.v);
  call.out = required_tensor(kOp, "out", c.out);
  call.denominator = span_of(kOp, "denominator", c.denominator, c.denominator_count);
  call.mask = mask_of(kOp, c.mask, call.k);
  call.q_positions = positions_of(kOp, "q_positions", c.q_positions,
                                  {call.q.batch(), call.q.tokens(), c.plan->axes});
  call.k_positions = positions_of(kOp, "k_positions", c.k_positions,
                                  {call.k.batch(), call.k.tokens(), c.plan->axes});
  call.options = linear_options_of(c.options);
  return call;
}

Status backward(const posenc_linear_attention_backward_call* given) {
  const char* op = "linear_attention_backward";
  const auto c =
      read_struct(op, "call", given, offsetof(posenc_linear_attention_backward_call, dparameters));
  const posenc_linear_attention_call forward = read_call("forward", c.forward);
  LinearAttentionBackwardCall call;
  call.forward = call_of(forward);
  call.grad_out = required_tensor(op, "grad_out", c.grad_out);
  call.dq = required_tensor(op, "dq", c.dq);
  call.dk = required_tensor(op, "dk", c.dk);
  call.dv = required_tensor(op, "dv", c.dv);
  call.dparameters = gradients_of(op, *forward.plan, call.forward.parameters, c.dparameters);
  return linear_attention_backward(call);
}

}  // namespace

LinearAttentionOptions linear_options_of(const posenc_linear_options& options) {
  using Options = LinearAttentionOptions;
  check_choice(kOp, "options.form", options.form, 2);
  check_choice(kOp, "options.feature_map", options.feature_map, 2);
  Options result;
  if (options.form == POSENC_COSINE) result.form = Options::Form::kCosine;
  if (options.feature_map == POSENC_RELU) result.feature_map = Options::FeatureMap::kRelu;
  if (options.epsilon != 0.0) result.epsilon = options.epsilon;
  return result;
}

}  // namespace posenc::capi

using posenc::capi::guarded;

extern "C" {

posenc_status posenc_linear_attention(const posenc_linear_attention_call* call) noexcept {
  return guarded([&] {
    return linear_attention(posenc::capi::call_of(posenc::capi::read_call("call", call)));
  });
}

posenc_status posenc_linear_attention_backward(
    const posenc_linear_attention_backward_call* call) noexcept {
  return guarded([&] { return posenc::capi::backward(call); });
}

}  // extern "C"
