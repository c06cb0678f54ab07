// Attention on the GPU.
#include <limits>

#include "jax/call.h"
#include "jax/cuda/gradients.h"
#include "jax/handlers.h"
#include "kernels/cuda/decode.h"

namespace posenc::jax {
namespace {

constexpr const char* kOp = "attention";

std::int64_t rows_of(const TensorView& q) { return q.batch() * q.heads() * q.tokens(); }

Status without_keys(Device& device, const TensorView& out, std::span<float> lse) {
  device.zero(out);
  device.upload(std::vector<float>(lse.size(), -std::numeric_limits<float>::infinity()),
                lse.data());
  return {};
}

ffi::Error forward(cudaStream_t stream, ffi::ScratchAllocator scratch,
                   const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                   const AttentionOptions& options) {
  return guarded([&] {
    Device device(stream, scratch);
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    const AttentionArguments arguments(operands, options, device.reader());
    operands.finish();
    const TensorView out = results.tensor("out");
    const std::span<float> lse = results.floats("lse", rows_of(arguments.q));
    results.finish();
    if (arguments.q.empty() || arguments.k.empty()) return without_keys(device, out, lse);
    FusedCall fused(device, arguments, out, lse.data(), false);
    const bool decode = cuda::is_decode(fused.p);
    fused.give_workspace(decode ? cuda::decode_workspace_bytes(fused.p)
                                : cuda::forward_workspace_bytes(fused.p));
    return decode ? cuda::launch_attention_decode(fused.p, stream)
                  : cuda::launch_attention_forward(fused.p, stream);
  });
}

FusedGradients::Results results_of(Buffers& results, const AttentionArguments& arguments) {
  FusedGradients::Results to;
  to.dq = results.tensor("dq");
  to.dk = results.tensor("dk");
  to.dv = results.tensor("dv");
  to.parameters = parameter_results(results, arguments.parameters);
  for (std::size_t i = 0; i < arguments.inputs.size(); ++i) {
    to.dinputs.push_back(results.tensor("dinput"));
  }
  results.finish();
  return to;
}

Status no_gradients(Device& device, const FusedGradients::Results& to) {
  for (const TensorView& x : {to.dq, to.dk, to.dv}) device.zero(x);
  for (const TensorView& x : to.dinputs) device.zero(x);
  for (const std::span<float> x : to.parameters) {
    device.upload(std::vector<float>(x.size(), 0.0f), x.data());
  }
  return {};
}

ffi::Error backward(cudaStream_t stream, ffi::ScratchAllocator scratch,
                    const ffi::RemainingArgs& args, const ffi::RemainingRets& rets,
                    const AttentionOptions& options) {
  return guarded([&] {
    Device device(stream, scratch);
    Buffers operands(kOp, args);
    Buffers results(kOp, rets);
    const TensorView grad_out = operands.tensor("grad_out");
    const TensorView out = operands.tensor("out");
    const ffi::AnyBuffer lse = operands.next("lse");
    const AttentionArguments arguments(operands, options, device.reader());
    operands.finish();
    const FusedGradients::Results to = results_of(results, arguments);
    if (arguments.q.empty() || arguments.k.empty()) return no_gradients(device, to);
    float* sums = floats_of(kOp, "lse", lse, rows_of(arguments.q)).data();
    FusedCall fused(device, arguments, out, sums, true);
    return FusedGradients(fused, grad_out, to).run();
  });
}

}  // namespace
}  // namespace posenc::jax

XLA_FFI_DEFINE_HANDLER_SYMBOL(posenc_jax_attention_cuda, posenc::jax::forward,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<posenc::jax::AttentionOptions>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(posenc_jax_attention_backward_cuda, posenc::jax::backward,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                                  .Ctx<xla::ffi::ScratchAllocator>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs<posenc::jax::AttentionOptions>());
