#include "kernels/attention_reference.h"

#include <algorithm>

#include "kernels/paged_cache.h"
#include "kernels/path_trace.h"
#include "posenc/kernels/ref/attention.h"

namespace posenc {
namespace {

// With the table of a call for tensors with a row per key.
std::vector<double> to_double(const ConstTensorView& x, const BlockTable& table = {}) {
  std::vector<double> all;
  if (!x.present()) return all;
  AlignedFloats row(static_cast<std::size_t>(x.channels()));
  for (std::int64_t b = 0; b < x.batch(); ++b) {
    for (std::int64_t h = 0; h < x.heads(); ++h) {
      for (std::int64_t t = 0; t < x.tokens(); ++t) {
        read_key_row(table, x, b, h, t, row.size(), row.data());
        all.insert(all.end(), row.begin(), row.end());
      }
    }
  }
  return all;
}

void from_double(const std::vector<double>& values, const TensorView& x) {
  AlignedFloats row(static_cast<std::size_t>(x.channels()));
  std::size_t at = 0;
  for (std::int64_t b = 0; b < x.batch(); ++b) {
    for (std::int64_t h = 0; h < x.heads(); ++h) {
      for (std::int64_t t = 0; t < x.tokens(); ++t) {
        for (float& value : row) value = static_cast<float>(values[at++]);
        write_row(x, b, h, t, row.data());
      }
    }
  }
}

std::vector<std::int64_t> ids_of(const PositionsView& positions, std::int64_t batch,
                                 std::int64_t tokens, std::int64_t axes) {
  std::vector<std::int64_t> ids;
  for (std::int64_t b = 0; positions.given() && b < batch; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t a = 0; a < axes; ++a) ids.push_back(positions.at(b, t, a));
    }
  }
  return ids;
}

// The call in the reference's terms; owns what the spans point at.
struct AsReference {
  explicit AsReference(const AttentionCall& call)
      : state(call.plan->state()),
        q(to_double(call.q)),
        k(to_double(call.k, call.block_table)),
        v(to_double(call.v, call.block_table)) {
    shape = {call.q.batch(),  call.q.heads(),    call.k.heads(),   call.q.tokens(),
             call.k.tokens(), call.q.channels(), call.v.channels()};
    for (const ConstTensorView& input : call.inputs) {
      of_encodings.push_back(to_double(input, call.block_table));
    }
    inputs = {q, k, v, {of_encodings.begin(), of_encodings.end()}};
    options.scale = call.scale;
    options.masking = {call.mask.causal, call.mask.window_left, call.mask.window_right, {}, {}, {}};
    if (call.mask.key_mask != nullptr) {
      options.masking.key_mask.assign(call.mask.key_mask,
                                      call.mask.key_mask + call.k.batch() * call.k.tokens());
    }
    options.masking.cu_queries.assign(call.mask.cu_queries.begin(), call.mask.cu_queries.end());
    options.masking.cu_keys.assign(call.mask.cu_keys.begin(), call.mask.cu_keys.end());
    // One coordinate stays one: what reads several of a position knows what it means.
    const bool several = call.q_positions.axis_stride != 0 || call.k_positions.axis_stride != 0;
    options.positions.axes = several ? state.axes : 1;
    options.positions.query =
        ids_of(call.q_positions, call.q.batch(), call.q.tokens(), options.positions.axes);
    options.positions.key =
        ids_of(call.k_positions, call.k.batch(), call.k.tokens(), options.positions.axes);
    options.lengths = state.lengths;
    options.dropout = call.dropout;
  }

  const AttentionPlan::State& state;
  std::vector<double> q;
  std::vector<double> k;
  std::vector<double> v;
  std::vector<std::vector<double>> of_encodings;
  ref::AttentionShape shape;
  ref::AttentionInputs inputs;
  ref::AttentionOptions options;
};

void run_reference(const AttentionCall& call) {
  const AsReference as(call);
  const ref::AttentionOutput result =
      ref::attention(as.state.spec, *call.parameters, as.shape, as.inputs, as.options);
  from_double(result.out, call.out);
  std::transform(result.lse.begin(),
                 result.lse.begin() + static_cast<std::ptrdiff_t>(call.lse.size()),
                 call.lse.begin(), [](double x) { return static_cast<float>(x); });
}

}  // namespace

Status reference_attention(const AttentionCall& call) {
  path_trace().forward = AttentionPath::kReference;
  if (!call.block_table.given()) {
    run_reference(call);
    return {};
  }
  for (std::int64_t b = 0; b < call.q.batch(); ++b) run_reference(PagedEntry(call, b).call);
  return {};
}

Status reference_attention_backward(const AttentionBackwardCall& call) {
  path_trace().backward = AttentionPath::kReference;
  const AsReference as(call.forward);
  const std::vector<double> grad_out = to_double(call.grad_out);
  ref::AttentionGradients result = ref::attention_backward(
      as.state.spec, *call.forward.parameters, as.shape, as.inputs, grad_out, as.options);
  from_double(result.q, call.dq);
  from_double(result.k, call.dk);
  from_double(result.v, call.dv);
  for (std::size_t i = 0; i < call.dinputs.size(); ++i) {
    from_double(result.of_encodings[i], call.dinputs[i]);
  }
  if (call.dparameters != nullptr) *call.dparameters = std::move(result.parameters);
  return {};
}

}  // namespace posenc
