// The dispatcher's side of linear attention: shapes, gradients, and the operator that users call.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "torch/autograd.h"
#include "torch/linear_arguments.h"

namespace posenc::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLinearAttention = "linear_attention";

using Forward = std::tuple<at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Forward forward_meta(const at::Tensor& q, const at::Tensor& /*k*/, const at::Tensor& /*v*/,
                     const at::Tensor& /*parameters*/, POSENC_LINEAR_PARAMETERS) {
  (void)std::make_tuple(POSENC_LINEAR_NAMES);
  const auto type = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty_like(q), q.new_empty_symint(q.sym_sizes().slice(0, 3), type)};
}
Backward backward_meta(const at::Tensor& /*grad_out*/, const at::Tensor& /*out*/,
                       const at::Tensor& /*sums*/, const at::Tensor& q, const at::Tensor& k,
                       const at::Tensor& v, const at::Tensor& parameters,
                       POSENC_LINEAR_PARAMETERS) {
  (void)std::make_tuple(POSENC_LINEAR_NAMES);
  return {at::empty_like(q), k.new_empty_symint(k.sym_sizes()), v.new_empty_symint(v.sym_sizes()),
          at::empty_like(parameters)};
}

Forward call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_linear_attention", "")
                                .typed<decltype(forward_meta)>();
  return kCall.call(q, k, v, parameters, POSENC_LINEAR_NAMES);
}
Backward call_backward(const at::Tensor& grad_out, const at::Tensor& out, const at::Tensor& sums,
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_linear_attention_backward", "")
                                .typed<decltype(backward_meta)>();
  return kCall.call(grad_out, out, sums, q, k, v, parameters, POSENC_LINEAR_NAMES);
}

class BackwardFunction : public torch::autograd::Function<BackwardFunction> {
 public:
  static variable_list forward(AutogradContext* /*ctx*/, const at::Tensor& grad_out,
                               const at::Tensor& out, const at::Tensor& sums, const at::Tensor& q,
                               const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [dq, dk, dv, dparameters] =
        call_backward(grad_out, out, sums, q, k, v, parameters, POSENC_LINEAR_NAMES);
    return {dq, dk, dv, dparameters};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*gradients*/) {
    refuse_double_backward(kLinearAttention);
  }
};

Backward backward_autograd(const at::Tensor& grad_out, const at::Tensor& out,
                           const at::Tensor& sums, const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v, const at::Tensor& parameters,
                           POSENC_LINEAR_PARAMETERS) {
  const auto g =
      BackwardFunction::apply(grad_out, out, sums, q, k, v, parameters, POSENC_LINEAR_NAMES);
  return {g[0], g[1], g[2], g[3]};
}

class ForwardFunction : public torch::autograd::Function<ForwardFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& parameters,
                               POSENC_LINEAR_PARAMETERS) {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto [out, sums] = call_forward(q, k, v, parameters, POSENC_LINEAR_NAMES);
    ctx->save_for_backward({q, k, v, parameters, out, sums, or_undefined(key_mask),
                            or_undefined(cu_queries), or_undefined(cu_keys),
                            or_undefined(q_positions), or_undefined(k_positions)});
    ctx->saved_data["spec"] = spec;
    ctx->saved_data["form"] = form;
    ctx->saved_data["epsilon"] = epsilon;
    ctx->saved_data["causal"] = causal;
    ctx->mark_non_differentiable({sums});
    return {out, sums};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list t = ctx->get_saved_variables();
    auto& saved = ctx->saved_data;
    auto [dq, dk, dv, dparameters] = call_backward(
        gradients[0], t[4], t[5], t[0], t[1], t[2], t[3], saved["spec"].toStringRef(),
        saved["form"].toStringRef(), saved["epsilon"].toDouble(), saved["causal"].toBool(),
        optional(t[6]), optional(t[7]), optional(t[8]), optional(t[9]), optional(t[10]));
    variable_list all(4 + 9);  // in the order of forward's arguments
    all[0] = dq;
    all[1] = dk;
    all[2] = dv;
    all[3] = dparameters;
    return all;
  }
};

Forward forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  if (!records({q, k, v, parameters})) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return call_forward(q, k, v, parameters, POSENC_LINEAR_NAMES);
  }
  const auto results = ForwardFunction::apply(q, k, v, parameters, POSENC_LINEAR_NAMES);
  return {results[0], results[1]};
}

at::Tensor linear_attention_composite(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      std::string spec, at::TensorList parameters, std::string form,
                                      double epsilon, bool causal, const OptionalTensor& key_mask,
                                      const OptionalTensor& cu_queries,
                                      const OptionalTensor& cu_keys,
                                      const OptionalTensor& q_positions,
                                      const OptionalTensor& k_positions) {
  return std::get<0>(call_forward(q, k, v, joined(parameters, q), POSENC_LINEAR_NAMES));
}

}  // namespace

TORCH_LIBRARY_IMPL(posenc, Meta, m) {
  m.impl("_linear_attention", forward_meta);
  m.impl("_linear_attention_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(posenc, Autograd, m) {
  m.impl("_linear_attention", forward_autograd);
  m.impl("_linear_attention_backward", backward_autograd);
}
TORCH_LIBRARY_IMPL(posenc, CompositeImplicitAutograd, m) {
  m.impl("linear_attention", linear_attention_composite);
}

}  // namespace posenc::ops
