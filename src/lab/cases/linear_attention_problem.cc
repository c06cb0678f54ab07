#include <algorithm>

#include "cases/attention_data.h"

namespace posenc::cases {

LinearAttentionCall LinearAttentionProblem::call() {
  LinearAttentionCall call;
  call.plan = &data.plan;
  call.parameters = &data.parameters;
  call.q = data.q.view();
  call.k = data.k.view();
  call.v = data.v.view();
  call.out = data.out.view();
  call.denominator = data.row_sums;
  call.mask = data.mask();
  call.q_positions = data.positions(true);
  call.k_positions = data.positions(false);
  call.options = data.c.linear;
  return call;
}

LinearAttentionBackwardCall LinearAttentionProblem::backward_call() {
  LinearAttentionBackwardCall backward;
  backward.forward = call();
  backward.grad_out = data.grad_out.view();
  backward.dq = data.dq.view();
  backward.dk = data.dk.view();
  backward.dv = data.dv.view();
  backward.dparameters = &data.dparameters;
  return backward;
}

ref::LinearAttentionOptions LinearAttentionProblem::ref_options() const {
  using Ref = ref::LinearAttentionOptions;
  Ref options;
  options.form = static_cast<Ref::Form>(data.c.linear.form);
  options.feature_map = static_cast<Ref::FeatureMap>(data.c.linear.feature_map);
  options.epsilon = data.c.linear.epsilon;
  options.masking = data.ref_masking();
  options.positions = data.ref_positions();
  options.lengths = {std::max<std::int64_t>(data.c.keys, 1)};
  return options;
}

void LinearAttentionProblem::forward() { linear_attention(call()).throw_if_error(); }
void LinearAttentionProblem::backward() {
  linear_attention_backward(backward_call()).throw_if_error();
}

std::vector<Result> LinearAttentionProblem::results(bool with_backward) const {
  return data.results("denominator", with_backward);
}

std::vector<Result> LinearAttentionProblem::expected(bool with_backward) const {
  const ExactAttention exact = data.exact();
  const ref::LinearAttentionOptions options = ref_options();
  const auto forward =
      ref::linear_attention(data.spec, exact.parameters, data.ref_shape(), exact.inputs(), options);
  std::vector<Result> all = {{"out", ResultKind::kValue, forward.out},
                             {"denominator", ResultKind::kRowSum, forward.denominator}};
  if (!with_backward) return all;
  const auto gradients = data.expected_gradients(ref::linear_attention_backward(
      data.spec, exact.parameters, data.ref_shape(), exact.inputs(), exact.grad_out, options));
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

std::vector<Variable> LinearAttentionProblem::variables() {
  exact_ = data.exact();
  return variables_of(exact_, data);
}

double LinearAttentionProblem::loss() {
  const auto forward = ref::linear_attention(data.spec, exact_.parameters, data.ref_shape(),
                                             exact_.inputs(), ref_options());
  return inner_product(exact_.grad_out, forward.out);
}

}  // namespace posenc::cases
