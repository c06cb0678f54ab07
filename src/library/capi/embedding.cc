#include "posenc/kernels/embedding.h"

#include "capi/arguments.h"

namespace posenc::capi {
namespace {

// Site 1 has one coordinate.
Tokens tokens_of(const TensorView& x) { return {x.batch(), x.tokens(), 1}; }

void check_width(const char* op, const char* name, const posenc_parameters& parameters,
                 const TensorView& x) {
  if (x.channels() == parameters.shape.width()) return;
  fail(StatusCode::kInvalidArgument,
       "[%s] %s must have the model_dim of the parameters (%lld) channels but got %lld", op, name,
       static_cast<long long>(parameters.shape.width()), static_cast<long long>(x.channels()));
}

Status add(const posenc_embeddings_call* given) {
  const char* op = "add_embeddings";
  const auto c = read_struct(op, "call", given, offsetof(posenc_embeddings_call, y));
  const posenc_parameters& parameters = required(op, "parameters", c.parameters);
  const TensorView x = required_tensor(op, "x", c.x);
  check_width(op, "x", parameters, x);
  EmbeddingCall call;
  call.spec = &parameters.spec;
  call.parameters = parameters.values.get();
  call.x = x;
  call.y = is_given(c.y) ? tensor_of(op, "y", c.y) : x;
  call.positions = positions_of(op, "positions", c.positions, tokens_of(x));
  return add_embeddings(call);
}

Status add_gradient(const posenc_embeddings_gradient_call* given) {
  const char* op = "add_embeddings_gradient";
  const auto c =
      read_struct(op, "call", given, offsetof(posenc_embeddings_gradient_call, positions));
  const posenc_parameters& parameters = required(op, "parameters", c.parameters);
  posenc_parameters& gradients = required(op, "dparameters", c.dparameters);
  const bool alike = made_for(gradients, parameters.spec, parameters.shape);
  if (!alike || gradients.values == parameters.values) {
    fail(StatusCode::kInvalidArgument,
         "[%s] dparameters must be separate from the parameters and made for the same spec and "
         "shape",
         op);
  }
  const TensorView dy = required_tensor(op, "dy", c.dy);
  check_width(op, "dy", parameters, dy);
  EmbeddingGradientCall call;
  call.spec = &parameters.spec;
  call.parameters = parameters.values.get();
  call.dy = dy;
  call.positions = positions_of(op, "positions", c.positions, tokens_of(dy));
  call.dparameters = gradients.values.get();
  return add_embeddings_gradient(call);
}

}  // namespace
}  // namespace posenc::capi

extern "C" {

posenc_status posenc_add_embeddings(const posenc_embeddings_call* call) noexcept {
  return posenc::capi::guarded([&] { return posenc::capi::add(call); });
}

posenc_status posenc_add_embeddings_gradient(const posenc_embeddings_gradient_call* call) noexcept {
  return posenc::capi::guarded([&] { return posenc::capi::add_gradient(call); });
}

}  // extern "C"
