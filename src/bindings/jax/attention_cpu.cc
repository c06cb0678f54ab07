// Attention on the CPU.
#include "jax/arguments.h"
#include "jax/call.h"
#include "jax/handlers.h"

namespace posenc::jax {
namespace {

constexpr const char* kOp = "attention";

std::int64_t rows_of(const TensorView& q) { return q.batch() * q.heads() * q.tokens(); }

ffi::Error forward(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                   const AttentionOptions& options) {
  return guarded([&] {
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    const AttentionArguments arguments(operands, options, read_in_place);
    operands.finish();
    AttentionCall call = arguments.call();
    call.out = results.tensor("out");
    call.lse = results.floats("lse", rows_of(arguments.q));
    results.finish();
    return attention(call);
  });
}

ffi::Error backward(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                    const AttentionOptions& options) {
  return guarded([&] {
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    AttentionBackwardCall call;
    call.grad_out = operands.tensor("grad_out");
    const TensorView out = operands.tensor("out");
    const ffi::AnyBuffer lse = operands.next("lse");
    const AttentionArguments arguments(operands, options, read_in_place);
    operands.finish();
    call.forward = arguments.call();
    call.forward.out = out;
    call.forward.lse = floats_of(kOp, "lse", lse, rows_of(arguments.q));
    call.dq = results.tensor("dq");
    call.dk = results.tensor("dk");
    call.dv = results.tensor("dv");
    const auto to_parameters = parameter_results(results, arguments.parameters);
    std::vector<TensorView> dinputs;
    for (std::size_t i = 0; i < arguments.inputs.size(); ++i) {
      dinputs.push_back(results.tensor("dinput"));
    }
    results.finish();
    call.dinputs = dinputs;
    std::vector<Parameters> gradients;
    if (!to_parameters.empty()) call.dparameters = &gradients;
    const Status status = attention_backward(call);
    if (status.ok()) write_parameters(arguments.parameters, gradients, to_parameters);
    return status;
  });
}

}  // namespace
}  // namespace posenc::jax

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    posenc_jax_attention_cpu, posenc::jax::forward,
    xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs<posenc::jax::AttentionOptions>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    posenc_jax_attention_backward_cpu, posenc::jax::backward,
    xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs<posenc::jax::AttentionOptions>());
