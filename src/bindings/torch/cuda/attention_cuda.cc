// Attention on the GPU: the fused kernels where they serve the call, else libtorch's own operations.
// Site 2 runs before the kernels, in a separate pass, and its gradient after theirs.
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <limits>

#include "kernels/cuda/decode.h"
#include "kernels/path_trace.h"
#include "torch/cuda/fused_call.h"
#include "torch/cuda/fused_gradients.h"
#include "torch/cuda/stream.h"

namespace posenc::ops {
namespace {

AttentionForward composed_forward(const CudaCall& call) {
  path_trace().forward = AttentionPath::kComposed;
  const ComposedResult result = composed_attention(call.composed());
  return {result.out, result.lse};
}

AttentionForward attention_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  const c10::DeviceGuard guard(q.device());
  const CudaCall call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  if (!call.fused()) return composed_forward(call);
  // Laid out as the meta function says: as q, where its channels are contiguous. The kernel writes rows as wide as q.
  const at::Tensor& c_q = call.composed().q;
  const bool narrow = v.size(3) < q.size(3);
  const at::Tensor rows = aligned(at::empty_like(c_q));
  const at::Tensor out = narrow ? empty_output(c_q, v) : rows;
  const at::Tensor lse =
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  if (q.numel() == 0 || k.size(2) == 0) {
    return {out.zero_(), lse.fill_(-std::numeric_limits<double>::infinity())};
  }
  FusedCall fused(call, rows, lse);
  const bool decode = cuda::is_decode(fused.p);
  fused.give_workspace(decode ? cuda::decode_workspace_bytes(fused.p)
                              : cuda::forward_workspace_bytes(fused.p));
  const cuda::Stream stream = current_stream(q.device());
  const bool done = launched(decode ? cuda::launch_attention_decode(fused.p, stream)
                                    : cuda::launch_attention_forward(fused.p, stream));
  if (!done) return composed_forward(call);
  path_trace().forward = decode ? AttentionPath::kDecode : AttentionPath::kFused;
  if (narrow) at::Tensor(out).copy_(rows.narrow(3, 0, v.size(3)));
  return {out, lse};
}

AttentionBackward no_gradients(const ComposedCall& c) {
  std::vector<at::Tensor> dinputs;
  for (const at::Tensor& input : c.inputs) dinputs.push_back(at::zeros_like(input));
  return {at::zeros_like(c.q), at::zeros_like(c.k), at::zeros_like(c.v), dinputs,
          at::zeros_like(c.parameters)};
}

AttentionBackward attention_backward_cuda(const at::Tensor& grad_out, const at::Tensor& out,
                                          const at::Tensor& lse, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v,
                                          const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                                          bool wants_parameters) {
  const c10::DeviceGuard guard(q.device());
  const CudaCall call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  const ComposedCall& c = call.composed();
  if (call.backward_fused()) {
    if (q.numel() == 0 || k.numel() == 0) return no_gradients(c);
    const at::Tensor rows_out = aligned(to_width(out, q.size(3)));
    const at::Tensor sums = lse.contiguous();
    FusedCall fused(call, rows_out, sums);
    const at::Tensor rows_grad = aligned(to_width(grad_out.to(q.scalar_type()), q.size(3)));
    FusedGradients gradients(fused, rows_grad, wants_parameters);
    if (gradients.launch()) {
      path_trace().backward = AttentionPath::kFused;
      return gradients.finish();
    }
  }
  path_trace().backward = AttentionPath::kComposed;
  return composed_attention_backward(c, grad_out, wants_parameters);
}

// Weights and CoPE's positions, for looking inside: in float64, as on the CPU.
AttentionForward inside_cuda(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  const c10::DeviceGuard guard(q.device());
  const CudaCall call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
  ComposedCall exact = call.composed();
  for (at::Tensor* x : {&exact.q, &exact.k, &exact.v, &exact.parameters}) *x = x->to(at::kDouble);
  for (at::Tensor& input : exact.inputs) input = input.to(at::kDouble);
  const ComposedResult result = composed_attention(exact);
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor positions =
      result.cope_positions.defined()
          ? result.cope_positions
          : at::empty({0}, at::TensorOptions(q.device()).dtype(at::kDouble));
  return {result.weights.to(type), positions.to(type)};
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, CUDA, m) {
  m.impl("_attention", attention_cuda);
  m.impl("_attention_backward", attention_backward_cuda);
  m.impl("_attention_inside", inside_cuda);
}

}  // namespace posenc::ops
