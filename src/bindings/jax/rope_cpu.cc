// RoPE and xPos on the CPU.
#include "jax/arguments.h"
#include "jax/call.h"
#include "jax/handlers.h"
#include "kernels/attention_call.h"
#include "posenc/kernels/ref/rope.h"
#include "posenc/kernels/rope.h"

namespace posenc::jax {
namespace {

constexpr const char* kOp = "rope";

// Of the plan, or for frequencies that train.
struct Tables {
  explicit Tables(const RopeArguments& arguments)
      : tables(rotary_tables(arguments.prepared->plan, 0, &arguments.parameters.values, own)) {}

  std::vector<std::unique_ptr<RotaryCache>> own;
  const RotaryCache* tables;
};

ffi::Error rotate(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                  const RopeOptions& options) {
  return guarded([&] {
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    const RopeArguments arguments(operands, options, read_in_place);
    operands.finish();
    const Tables tables(arguments);
    RopeCall call;
    call.q = arguments.q;
    call.k = arguments.k;
    call.q_out = results.tensor("q_out");
    call.k_out = results.tensor("k_out");
    results.finish();
    call.tables = tables.tables;
    if (arguments.positions) call.positions = arguments.positions->view;
    call.transposed = options.transposed != 0;
    return rope(call);
  });
}

ffi::Error frequencies(const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                       const RopeOptions& options) {
  return guarded([&] {
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    RopeFrequencyGradientCall call;
    call.dq_out = operands.tensor("dq_out");
    call.dk_out = operands.tensor("dk_out");
    const RopeArguments arguments(operands, options, read_in_place);
    operands.finish();
    const auto to_parameters = parameter_results(results, arguments.parameters);
    results.finish();
    if (to_parameters.empty()) return Status();
    const Tables tables(arguments);
    const Rotary& rotary = tables.tables->rotary();
    std::vector<double> sums(rotary.groups() * rotary.pairs(), 0.0);
    call.q = arguments.q;
    call.k = arguments.k;
    call.tables = tables.tables;
    if (arguments.positions) call.positions = arguments.positions->view;
    call.dinv_freq = sums;
    const Status status = rope_frequency_gradient(call);
    if (status.ok()) {
      write_parameters(arguments.parameters, {{ref::alpha_gradient(rotary, sums)}}, to_parameters);
    }
    return status;
  });
}

}  // namespace
}  // namespace posenc::jax

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    posenc_jax_rope_cpu, posenc::jax::rotate,
    xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs<posenc::jax::RopeOptions>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    posenc_jax_rope_frequencies_cpu, posenc::jax::frequencies,
    xla::ffi::Ffi::Bind().RemainingArgs().RemainingRets().Attrs<posenc::jax::RopeOptions>());
