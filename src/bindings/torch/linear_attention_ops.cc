// Linear attention: kernels, shapes, gradients, and the operator that users call.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "kernels/attention_call.h"
#include "torch/autograd.h"
#include "torch/linear_arguments.h"

namespace posenc::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kLinearAttention = "linear_attention";

struct LinearArguments {
  LinearArguments(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                  const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS)
      : places((check_rows(kLinearAttention, "q", q_in, q_in),
                check_rows(kLinearAttention, "k", k_in, q_in),
                check_rows(kLinearAttention, "v", v_in, q_in), kLinearAttention),
               q_in, k_in, causal, -1, -1, key_mask, cu_queries, cu_keys, q_positions, k_positions),
        q(with_contiguous_rows(q_in)),
        k(with_contiguous_rows(k_in)),
        v(with_contiguous_rows(v_in)),
        options(linear_options(form, epsilon)),
        prepared(prepare(spec, {.head_dim = q.size(3), .heads = q.size(1)}, k.size(1), k.size(2))),
        values(split_parameters(*prepared, parameters)) {
    places.check_axes(kLinearAttention, prepared->plan.terms().axes);
  }

  [[nodiscard]] LinearAttentionCall call(const at::Tensor& out, const at::Tensor& sums) const {
    LinearAttentionCall call;
    call.plan = &prepared->plan;
    call.parameters = &values;
    call.q = view_of(q);
    call.k = view_of(k);
    call.v = view_of(v);
    call.out = view_of(out);
    call.denominator = {sums.data_ptr<float>(), static_cast<std::size_t>(sums.numel())};
    call.mask = places.mask();
    call.q_positions = places.q_positions();
    call.k_positions = places.k_positions();
    call.options = options;
    return call;
  }
  [[nodiscard]] ref::LinearAttentionOptions ref_options() const {
    using Ref = ref::LinearAttentionOptions;
    Ref ref;
    ref.form = static_cast<Ref::Form>(options.form);
    ref.feature_map = static_cast<Ref::FeatureMap>(options.feature_map);
    ref.epsilon = options.epsilon;
    ref.masking = places.ref_masking();
    ref.positions = places.ref_positions();
    ref.lengths = {std::max<std::int64_t>(k.size(2), 1)};
    return ref;
  }
  [[nodiscard]] ref::AttentionShape ref_shape() const {
    return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3)};
  }

  Places places;
  at::Tensor q, k, v;
  LinearAttentionOptions options;
  std::shared_ptr<const Prepared> prepared;
  std::vector<Parameters> values;
};

using Forward = std::tuple<at::Tensor, at::Tensor>;
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Forward forward_cpu(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  const LinearArguments a(q, k, v, parameters, POSENC_LINEAR_NAMES);
  const std::vector<std::int64_t> rows = {q.size(0), q.size(1), q.size(2)};
  if (q.scalar_type() == at::kDouble) {
    const auto exact_q = values_of(q);
    const auto exact_k = values_of(k);
    const auto exact_v = values_of(v);
    const auto result = ref::linear_attention(a.prepared->spec, a.values, a.ref_shape(),
                                              {exact_q, exact_k, exact_v, {}}, a.ref_options());
    return {tensor_of(result.out, q), at::tensor(result.denominator, at::kDouble).reshape(rows)};
  }
  const at::Tensor out = at::empty_like(a.q);
  const at::Tensor sums = at::empty(rows, q.options().dtype(at::kFloat));
  linear_attention(a.call(out, sums)).throw_if_error();
  return {out, sums};
}

Backward linear_backward_float64(const at::Tensor& grad_out, const LinearArguments& a,
                                 const at::Tensor& parameters) {
  const auto exact_q = values_of(a.q);
  const auto exact_k = values_of(a.k);
  const auto exact_v = values_of(a.v);
  const auto g = ref::linear_attention_backward(a.prepared->spec, a.values, a.ref_shape(),
                                                {exact_q, exact_k, exact_v, {}},
                                                values_of(grad_out), a.ref_options());
  return {tensor_of(g.q, a.q), tensor_of(g.k, a.k), tensor_of(g.v, a.v),
          join_parameters(*a.prepared, g.parameters, parameters)};
}

Backward backward_cpu(const at::Tensor& grad_out, const at::Tensor& out, const at::Tensor& sums,
                      const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  const LinearArguments a(q, k, v, parameters, POSENC_LINEAR_NAMES);
  if (q.scalar_type() == at::kDouble) return linear_backward_float64(grad_out, a, parameters);
  const at::Tensor rows_out = with_contiguous_rows(out);
  const at::Tensor rows_grad = with_contiguous_rows(grad_out.to(q.scalar_type()));
  const at::Tensor dq = at::empty_like(a.q);
  const at::Tensor dk = at::empty(a.k.sizes(), a.k.options());
  const at::Tensor dv = at::empty(a.v.sizes(), a.v.options());
  std::vector<Parameters> dvalues;
  LinearAttentionBackwardCall call;
  call.forward = a.call(rows_out, sums.contiguous());
  call.grad_out = view_of(rows_grad);
  call.dq = view_of(dq);
  call.dk = view_of(dk);
  call.dv = view_of(dv);
  call.dparameters = &dvalues;
  linear_attention_backward(call).throw_if_error();
  return {dq, dk, dv, join_parameters(*a.prepared, dvalues, parameters)};
}

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
                                .typed<decltype(forward_cpu)>();
  return kCall.call(q, k, v, parameters, POSENC_LINEAR_NAMES);
}
Backward call_backward(const at::Tensor& grad_out, const at::Tensor& out, const at::Tensor& sums,
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& parameters, POSENC_LINEAR_PARAMETERS) {
  static const auto kCall = c10::Dispatcher::singleton()
                                .findSchemaOrThrow("posenc::_linear_attention_backward", "")
                                .typed<decltype(backward_cpu)>();
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

TORCH_LIBRARY_IMPL(posenc, CPU, m) {
  m.impl("_linear_attention", forward_cpu);
  m.impl("_linear_attention_backward", backward_cpu);
}
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
