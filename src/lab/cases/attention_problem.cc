#include <algorithm>
#include <cmath>

#include "cases/attention_data.h"

namespace posenc::cases {
namespace {

constexpr std::uint64_t kDropoutSeed = 77;

}  // namespace

AttentionProblem::AttentionProblem(const Case& c) : data(c) {
  if (c.page > 0) paged.emplace(data, c.page, std::vector<std::int64_t>(c.batch, c.keys));
}

AttentionCall AttentionProblem::call() {
  AttentionCall call;
  call.allow_reference = true;
  call.plan = &data.plan;
  call.parameters = &data.parameters;
  call.q = data.q.view();
  call.k = data.k.view();
  call.v = data.v.view();
  input_views_.clear();
  for (Tensor& input : data.inputs) input_views_.emplace_back(input.view());
  call.inputs = input_views_;
  call.out = data.out.view();
  call.lse = data.row_sums;
  call.mask = data.mask();
  call.q_positions = data.positions(true);
  call.k_positions = data.positions(false);
  call.dropout = {data.c.dropout, kDropoutSeed};
  if (data.c.cache_dtype == DType::kInt8) {
    call.k_scales = data.k_scales.view();
    call.v_scales = data.v_scales.view();
  }
  if (paged) paged->put_into(call);
  return call;
}

AttentionBackwardCall AttentionProblem::backward_call() {
  AttentionBackwardCall backward;
  backward.forward = call();
  backward.grad_out = data.grad_out.view();
  backward.dq = data.dq.view();
  backward.dk = data.dk.view();
  backward.dv = data.dv.view();
  dinput_views_.clear();
  for (Tensor& dinput : data.dinputs) dinput_views_.push_back(dinput.view());
  backward.dinputs = dinput_views_;
  backward.dparameters = &data.dparameters;
  return backward;
}

ref::AttentionOptions AttentionProblem::ref_options() const {
  ref::AttentionOptions options;
  options.masking = data.ref_masking();
  options.positions = data.ref_positions();
  options.lengths = {std::max<std::int64_t>(data.c.keys, 1)};
  options.dropout = {data.c.dropout, kDropoutSeed};
  return options;
}

void AttentionProblem::forward() { attention(call()).throw_if_error(); }
void AttentionProblem::backward() { attention_backward(backward_call()).throw_if_error(); }

std::vector<Result> AttentionProblem::results(bool with_backward) const {
  return data.results("lse", with_backward);
}

std::vector<Result> AttentionProblem::expected(bool with_backward) const {
  const ExactAttention exact = data.exact();
  const ref::AttentionOptions options = ref_options();
  const auto forward =
      ref::attention(data.spec, exact.parameters, data.ref_shape(), exact.inputs(), options);
  std::vector<Result> all = {{"out", ResultKind::kValue, forward.out},
                             {"lse", ResultKind::kRowSum, forward.lse}};
  if (!with_backward) return all;
  const auto gradients = data.expected_gradients(ref::attention_backward(
      data.spec, exact.parameters, data.ref_shape(), exact.inputs(), exact.grad_out, options));
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

std::vector<Variable> AttentionProblem::variables() {
  exact_ = data.exact();
  return variables_of(exact_, data);
}

double AttentionProblem::loss() {
  const auto forward = ref::attention(data.spec, exact_.parameters, data.ref_shape(),
                                      exact_.inputs(), ref_options());
  return inner_product(exact_.grad_out, forward.out);
}

bool AttentionProblem::at_a_kink() const {
  const bool cope = std::any_of(data.spec.encodings.begin(), data.spec.encodings.end(),
                                [](const Encoding& e) { return std::holds_alternative<Cope>(e); });
  if (!cope) return false;
  const ExactAttention exact = data.exact();
  ref::AttentionOptions options = ref_options();
  options.keep_cope_positions = true;
  const auto forward =
      ref::attention(data.spec, exact.parameters, data.ref_shape(), exact.inputs(), options);
  for (const auto& positions : forward.cope_positions) {
    for (const double p : positions) {
      const double away = std::abs(p - std::nearbyint(p));
      if (p > 0.5 && away > 0.0 && away < 4e-7 * std::sqrt(p) + 2e-7) return true;
    }
  }
  return false;
}

std::string AttentionProblem::path() { return explain(call()); }

}  // namespace posenc::cases
