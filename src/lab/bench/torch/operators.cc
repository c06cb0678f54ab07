// What an operator adds to its kernel: checks, the plan's look-up, autograd. The baseline of these rows is
// the bare kernel, given new outputs in every call as the operator makes them.
#include <ATen/ATen.h>

#include "bench/measure.h"
#include "cases/attention_data.h"
#include "cases/rope_problem.h"
#include "posenc/core/threads.h"
#include "posenc/torch/ops.h"

namespace posenc::bench {
namespace {

using cases::Case;
using cases::Operation;

constexpr std::int64_t kTokens = 512;

Case small_case(Operation op, const std::string& spec) {
  return {.op = op,
          .spec = spec,
          .heads = 8,
          .kv_heads = 8,
          .queries = kTokens,
          .keys = kTokens,
          .head_dim = 64,
          .policy = {.length = 2048}};
}

at::Tensor on(cases::Tensor& tensor) {
  const TensorView view = tensor.view();
  return at::from_blob(view.data, view.shape, view.stride, at::TensorOptions(at::kFloat));
}

TensorView fresh(const at::Tensor& x) {
  return {x.data_ptr(),
          DType::kFloat32,
          {x.size(0), x.size(1), x.size(2), x.size(3)},
          {x.stride(0), x.stride(1), x.stride(2), x.stride(3)}};
}

std::vector<at::Tensor> parameters_of(const cases::AttentionData& data, bool with_gradient) {
  std::vector<at::Tensor> tensors;
  for (const SpecParameter& p : parameters(data.spec, data.shape)) {
    tensors.push_back(at::tensor(data.parameters[p.encoding][p.index], at::kDouble)
                          .reshape(p.info.shape)
                          .to(at::kFloat)
                          .set_requires_grad(with_gradient));
  }
  return tensors;
}

// Operator and kernel in turns.
Row compare(const std::string& name, const Case& c, const char* pass, const Options& options,
            const std::function<at::Tensor()>& op, const std::function<at::Tensor()>& kernel) {
  Row row;
  row.name = "operator/" + name;
  row.c = c;
  row.pass = pass;
  row.threads = num_threads();
  row.path = "torch.ops.posenc; the baseline is the bare kernel";
  row.checked = at::equal(op(), kernel());
  if (!row.checked) row.problem = "the operator's result is not the kernel's";
  double best = 1e30;
  double best_kernel = 1e30;
  const double start = seconds_now();
  for (int n = 0; n < 20 || seconds_now() - start < 2.0 * options.effort.seconds; ++n) {
    best_kernel = std::min(best_kernel, seconds_of([&] { (void)kernel(); }));
    best = std::min(best, seconds_of([&] { (void)op(); }));
  }
  row.ms = 1e3 * best;
  row.baseline_ms = 1e3 * best_kernel;
  return row;
}

std::vector<Row> attention_rows(const Options& options) {
  const Case c = small_case(Operation::kAttention, "rope + alibi");
  auto problem = std::make_shared<cases::AttentionProblem>(c);
  auto& d = problem->data;
  ops::AttentionOptions causal;
  causal.causal = true;
  const at::Tensor q = on(d.q);
  const at::Tensor k = on(d.k);
  const at::Tensor v = on(d.v);
  const auto constants = parameters_of(d, false);
  const auto forward = [&] {
    at::Tensor out = at::empty_like(q);
    AttentionCall call = problem->call();
    call.out = fresh(out);
    posenc::attention(call).throw_if_error();
    return out;
  };
  Row row = compare(
      "attention/T512/forward", c, "forward", options,
      [&] { return ops::attention(q, k, v, c.spec, constants, causal); }, forward);
  const auto leaf = [](const at::Tensor& x) { return x.detach().set_requires_grad(true); };
  const at::Tensor grad = on(d.grad_out);
  const auto both = [&] {
    const at::Tensor out = forward();
    at::Tensor dq = at::empty_like(q);
    const at::Tensor dk = at::empty_like(k);
    const at::Tensor dv = at::empty_like(v);
    AttentionBackwardCall call = problem->backward_call();
    call.forward.out = fresh(out);
    call.dq = fresh(dq);
    call.dk = fresh(dk);
    call.dv = fresh(dv);
    attention_backward(call).throw_if_error();
    return dq;
  };
  Row trained = compare(
      "attention/T512/forward+backward", c, "forward+backward", options,
      [&] {
        const at::Tensor leaf_q = leaf(q);
        ops::attention(leaf_q, leaf(k), leaf(v), c.spec, constants, causal).backward(grad);
        return leaf_q.grad();
      },
      both);
  return {row, trained};
}

std::vector<Row> linear_rows(const Options& options) {
  const Case c = small_case(Operation::kLinearAttention, "rope");
  auto problem = std::make_shared<cases::LinearAttentionProblem>(c);
  auto& d = problem->data;
  ops::AttentionOptions causal;
  causal.causal = true;
  const at::Tensor q = on(d.q);
  return {compare(
      "linear_attention/T512/forward", c, "forward", options,
      [&] { return ops::linear_attention(q, on(d.k), on(d.v), c.spec, {}, causal); },
      [&] {
        at::Tensor out = at::empty_like(q);
        LinearAttentionCall call = problem->call();
        call.out = fresh(out);
        posenc::linear_attention(call).throw_if_error();
        return out;
      })};
}

std::vector<Row> rope_rows(const Options& options) {
  Case c = small_case(Operation::kRope, "rope");
  c.batch = 8;
  c.heads = c.kv_heads = 32;
  auto problem = std::make_shared<cases::RopeProblem>(c);
  const at::Tensor q = on(problem->q);
  const at::Tensor k = on(problem->k);
  return {compare(
      "rope/T512/forward", c, "forward", options, [&] { return std::get<0>(ops::rope(q, k)); },
      [&] {
        at::Tensor q_out = at::empty_like(q);
        const at::Tensor k_out = at::empty_like(k);
        RopeCall call = problem->call();
        call.q_out = fresh(q_out);
        call.k_out = fresh(k_out);
        posenc::rope(call).throw_if_error();
        return q_out;
      })};
}

std::vector<Row> decode_rows(const Options& options) {
  Case c = small_case(Operation::kDecode, "alibi");
  c.queries = 1;
  c.keys = 4096;
  auto problem = std::make_shared<cases::AttentionProblem>(c);
  auto& d = problem->data;
  const at::Tensor q = on(d.q);
  const auto constants = parameters_of(d, false);
  return {compare(
      "attention_decode/K4096/forward", c, "forward", options,
      [&] { return ops::attention_decode(q, on(d.k), on(d.v), c.spec, constants); },
      [&] {
        at::Tensor out = at::empty_like(q);
        AttentionCall call = problem->call();
        call.out = fresh(out);
        posenc::attention(call).throw_if_error();
        return out;
      })};
}

}  // namespace

std::vector<Job> operator_jobs() {
  return {{"operator/attention", attention_rows},
          {"operator/linear_attention", linear_rows},
          {"operator/rope", rope_rows},
          {"operator/attention_decode", decode_rows}};
}

}  // namespace posenc::bench
