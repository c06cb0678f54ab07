// The dispatcher's side of attention: shapes without values, and calls from other operators.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/attention_arguments.h"

namespace posenc::ops {
namespace {

constexpr const char* kOp = "attention";

std::vector<at::Tensor> empty_like_each(at::TensorList tensors) {
  std::vector<at::Tensor> empty;
  for (const at::Tensor& x : tensors) empty.push_back(x.new_empty_symint(x.sym_sizes()));
  return empty;
}

AttentionForward attention_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& /*parameters*/, POSENC_ATTENTION_PARAMETERS) {
  (void)std::make_tuple(POSENC_ATTENTION_NAMES);
  check_rows(kOp, "q", q, q);
  check_rows(kOp, "k", k, q);
  check_rows(kOp, "v", v, q);
  const auto sums = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {empty_output_meta(q, v), q.new_empty_symint(q.sym_sizes().slice(0, 3), sums)};
}

AttentionBackward attention_backward_meta(const at::Tensor& /*grad_out*/, const at::Tensor& /*out*/,
                                          const at::Tensor& /*lse*/, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v,
                                          const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                                          bool /*wants_parameters*/) {
  (void)std::make_tuple(POSENC_ATTENTION_NAMES);
  return {at::empty_like(q), at::empty_like(k), at::empty_like(v), empty_like_each(inputs),
          at::empty_like(parameters)};
}

}  // namespace

at::Tensor empty_output_meta(const at::Tensor& q, const at::Tensor& v) {
  if (v.sym_size(3) == q.sym_size(3)) return at::empty_like(q);
  c10::SymDimVector shape(q.sym_sizes().begin(), q.sym_sizes().end());
  shape[3] = v.sym_size(3);
  const auto strides = q.sym_strides();
  if (strides[2] <= strides[1]) return q.new_empty_symint(shape);
  std::swap(shape[1], shape[2]);
  return q.new_empty_symint(shape).transpose(1, 2);
}

AttentionForward call_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_attention", "")
                                .typed<decltype(attention_meta)>();
  return kCall.call(q, k, v, parameters, POSENC_ATTENTION_NAMES);
}

AttentionBackward call_attention_backward(const at::Tensor& grad_out, const at::Tensor& out,
                                          const at::Tensor& lse, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v,
                                          const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                                          bool wants_parameters) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_attention_backward", "")
                                .typed<decltype(attention_backward_meta)>();
  return kCall.call(grad_out, out, lse, q, k, v, parameters, POSENC_ATTENTION_NAMES,
                    wants_parameters);
}

TORCH_LIBRARY_IMPL(posenc, Meta, m) {
  m.impl("_attention", attention_meta);
  m.impl("_attention_backward", attention_backward_meta);
}

}  // namespace posenc::ops
