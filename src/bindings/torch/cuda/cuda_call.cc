#include "torch/cuda/cuda_call.h"

#include <algorithm>

#include "torch/composed/paths.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "attention";

// For checks of shapes alone: views have no float64, so that is called float32.
TensorView shape_view(const at::Tensor& x) {
  if (x.scalar_type() != at::kDouble) return view_of(x);
  TensorView view;
  view.data = x.data_ptr();
  std::copy_n(x.sizes().begin(), 4, view.shape.begin());
  std::copy_n(x.strides().begin(), 4, view.stride.begin());
  view.stride[3] = 1;
  return view;
}

}  // namespace

CudaCall::CudaCall(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                   const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                   const at::Tensor& lengths)
    : tokens_((check_rows(kOp, "q", q_in, q_in), check_rows(kOp, "k", k_in, q_in),
               check_rows(kOp, "v", v_in, q_in), kOp),
              q_in, k_in,
              {causal, window_left, window_right, key_mask, cu_queries, cu_keys, q_positions,
               k_positions, lengths}),
      device_(q_in.device()) {
  composed_.q = with_contiguous_rows(q_in);
  composed_.k = with_contiguous_rows(k_in);
  composed_.v = with_contiguous_rows(v_in);
  composed_.prepared =
      prepare(spec, {.head_dim = q_in.size(3), .heads = q_in.size(1)}, k_in.size(1), k_in.size(2));
  composed_.inputs = rows_of_inputs(terms().inputs, inputs, q_in);
  composed_.parameters = parameters;
  composed_.tokens = &tokens_;
  composed_.scale = scale;
  composed_.dropout = {dropout, static_cast<std::uint64_t>(seed)};
  composed_.keys_are_turned = keys_are_turned;
  check();
}

CudaProblem CudaCall::problem() const {
  const at::Tensor& q = composed_.q;
  return {.numbers = cuda_numbers(q.scalar_type()),
          .head_dim = q.size(3),
          .value_dim = composed_.v.size(3),
          .batch = q.size(0),
          .queries = q.size(2),
          .keys = composed_.k.size(2),
          .explicit_positions = tokens_.explicit_positions()};
}
bool CudaCall::fused() const { return cuda_obstacle(terms(), problem()).empty(); }
bool CudaCall::backward_fused() const { return cuda_backward_obstacle(terms(), problem()).empty(); }

// The checks of the CPU's kernels, which look at shapes and not at memory.
void CudaCall::check() const {
  tokens_.check_axes(terms().axes);
  AttentionCall call;
  call.plan = &composed_.prepared->plan;
  call.q = shape_view(composed_.q);
  call.k = shape_view(composed_.k);
  call.v = shape_view(composed_.v);
  std::vector<ConstTensorView> inputs;
  for (const at::Tensor& input : composed_.inputs) inputs.push_back(shape_view(input));
  call.inputs = inputs;
  call.mask = tokens_.mask();
  call.dropout = composed_.dropout;
  call.keys_are_turned = composed_.keys_are_turned;
  check_attention_inputs(call).throw_if_error();
}

at::Tensor to_width(const at::Tensor& x, std::int64_t width) {
  const std::int64_t missing = width - x.size(3);
  return missing == 0 ? x : at::constant_pad_nd(x, {0, missing});
}

bool is_aligned(const at::Tensor& x) {
  const std::int64_t elements = 16 / static_cast<std::int64_t>(x.element_size());
  bool fits = x.stride(3) == 1 && reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
  for (int d = 0; d < 3; ++d) fits = fits && x.stride(d) % elements == 0;
  return fits;
}

at::Tensor aligned(const at::Tensor& x) {
  return is_aligned(x) ? x : at::empty(x.sizes(), x.options()).copy_(x);
}

}  // namespace posenc::ops
