// Linear attention on the CPU.
#include "kernels/attention_call.h"
#include "torch/linear_arguments.h"
#include "torch/register.h"

namespace posenc::ops {
namespace {

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

}  // namespace

POSENC_KERNELS(CPU, m) {
  m.impl("_linear_attention", POSENC_KERNEL(forward_cpu));
  m.impl("_linear_attention_backward", POSENC_KERNEL(backward_cpu));
}

}  // namespace posenc::ops
