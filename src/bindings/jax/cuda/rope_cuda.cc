// RoPE and xPos on the GPU.
#include "jax/arguments.h"
#include "jax/call.h"
#include "jax/cuda/rotation.h"
#include "jax/handlers.h"
#include "kernels/terms.h"

namespace posenc::jax {
namespace {

constexpr const char* kOp = "rope";

Side side_of(const RopeArguments& arguments) {
  const TensorView& q = arguments.q;
  if (arguments.positions) return side_of(*arguments.positions, q.batch(), q.tokens());
  return {.ids = {}, .least = 0, .most = std::max<std::int64_t>(q.tokens() - 1, 0)};
}

DeviceRotation rotation_of(Device& device, const RopeArguments& arguments, const Side& side) {
  const PreparedSpec& prepared = *arguments.prepared;
  const Terms& terms = prepared.plan.terms();
  const Parameters& alpha = arguments.parameters.values[0];
  const Rotary rotary = alpha.empty() ? terms.rotations[0]
                                      : rotary_of(prepared.spec.encodings[0], prepared.shape,
                                                  terms.lengths, alpha[0]);
  return {device, rotary, side.least, side.most};
}

ffi::Error rotate(cudaStream_t stream, ffi::ScratchAllocator scratch,
                  const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                  const RopeOptions& options) {
  return guarded([&] {
    Device device(stream, scratch);
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    const RopeArguments arguments(operands, options, device.reader());
    operands.finish();
    const TensorView q_out = results.tensor("q_out");
    const TensorView k_out = results.tensor("k_out");
    results.finish();
    if (arguments.q.empty()) return Status();
    const Side side = side_of(arguments);
    rotation_of(device, arguments, side)
        .rotate(arguments.q, arguments.k, q_out, k_out, side.ids, options.transposed != 0);
    return Status();
  });
}

ffi::Error frequencies(cudaStream_t stream, ffi::ScratchAllocator scratch,
                       const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                       const RopeOptions& options) {
  return guarded([&] {
    Device device(stream, scratch);
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    const TensorView dq = operands.tensor("dq_out");
    const TensorView dk = operands.tensor("dk_out");
    const RopeArguments arguments(operands, options, device.reader());
    operands.finish();
    const auto to_parameters = parameter_results(results, arguments.parameters);
    results.finish();
    if (to_parameters.empty()) return Status();
    const Side side = side_of(arguments);
    const auto gradient = rotation_of(device, arguments, side)
                              .alpha_gradient(arguments.q, dq, arguments.k, dk, side.ids);
    device.upload(std::vector<float>(gradient.begin(), gradient.end()), to_parameters[0].data());
    return Status();
  });
}

}  // namespace
}  // namespace posenc::jax

XLA_FFI_DEFINE_HANDLER_SYMBOL(posenc_jax_rope_cuda, posenc::jax::rotate,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<posenc::jax::RopeOptions>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(posenc_jax_rope_frequencies_cuda, posenc::jax::frequencies,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<posenc::jax::RopeOptions>());
