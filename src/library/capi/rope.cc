#include "posenc/kernels/rope.h"

#include "capi/arguments.h"
#include "capi/rotary_access.h"

namespace posenc::capi {
namespace {

// A tensor that is not given is the input itself.
TensorView output_of(const char* op, const char* name, const posenc_tensor& out,
                     const TensorView& in) {
  return is_given(out) ? tensor_of(op, name, out) : in;
}

Tokens tokens_of(const TensorView& q, const Rotary& rotary) {
  return {q.batch(), q.tokens(), rotary.axes.axes};
}

// k is optional, but what belongs to it is not to be given alone.
void check_alone(const char* op, const char* name, const posenc_tensor& tensor,
                 const posenc_tensor& k) {
  if (is_given(k) || !is_given(tensor)) return;
  fail(StatusCode::kInvalidArgument, "[%s] k must be given where %s is", op, name);
}

Status rope_of(const posenc_rope_call* given) {
  const char* op = "rope";
  const posenc_rope_call c = read_struct(op, "call", given, offsetof(posenc_rope_call, q_out));
  check_reserved(op, "call", c.reserved);
  const RotaryTables tables(op, required(op, "plan", c.plan), c.parameters, c.rotary);
  RopeCall call;
  const TensorView q = required_tensor(op, "q", c.q);
  const TensorView k = tensor_of(op, "k", c.k);
  check_alone(op, "k_out", c.k_out, c.k);
  call.q = q;
  call.q_out = output_of(op, "q_out", c.q_out, q);
  call.k = k;
  call.k_out = output_of(op, "k_out", c.k_out, k);
  call.tables = tables.get();
  call.positions = positions_of(op, "positions", c.positions, tokens_of(q, tables.rotary()));
  call.transposed = read_flag(op, "transposed", c.transposed);
  return rope(call);
}

Status frequency_gradient_of(const posenc_rope_frequency_gradient_call* given) {
  const char* op = "rope_frequency_gradient";
  const auto c = read_struct(op, "call", given, offsetof(posenc_rope_frequency_gradient_call, k));
  const RotaryTables tables(op, required(op, "plan", c.plan), c.parameters, c.rotary);
  RopeFrequencyGradientCall call;
  const TensorView q = required_tensor(op, "q", c.q);
  call.q = q;
  call.dq_out = required_tensor(op, "dq_out", c.dq_out);
  call.k = tensor_of(op, "k", c.k);
  call.dk_out = tensor_of(op, "dk_out", c.dk_out);
  check_alone(op, "dk_out", c.dk_out, c.k);
  check_pointer(op, "dinv_freq", c.dinv_freq);
  call.dinv_freq = {c.dinv_freq, c.dinv_freq_count};
  call.tables = tables.get();
  call.positions = positions_of(op, "positions", c.positions, tokens_of(q, tables.rotary()));
  return rope_frequency_gradient(call);
}

}  // namespace
}  // namespace posenc::capi

extern "C" {

posenc_status posenc_rope(const posenc_rope_call* call) noexcept {
  return posenc::capi::guarded([&] { return posenc::capi::rope_of(call); });
}

posenc_status posenc_rope_frequency_gradient(
    const posenc_rope_frequency_gradient_call* call) noexcept {
  return posenc::capi::guarded([&] { return posenc::capi::frequency_gradient_of(call); });
}

}  // extern "C"
