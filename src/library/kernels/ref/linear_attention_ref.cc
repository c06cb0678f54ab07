#include "kernels/ref/checks.h"
#include "kernels/ref/linear_attention_row.h"
#include "kernels/ref/vectors.h"
#include "posenc/kernels/ref/linear_attention.h"

namespace posenc::ref {
namespace {

using linear::Call;
using linear::Feature;
using linear::feature_backward;
using linear::kScope;

double numerator(const Call& call, const Feature& q, const Feature& k) {
  return (call.cosine() ? 1.0 : 0.0) + dot(q.rotated, k.rotated);
}

double denominator(const Call& call, const Feature& q, const Feature& k) {
  return call.cosine() ? numerator(call, q, k) : dot(q.plain, k.plain);
}

// Writes o_i and returns its denominator, 0 where no key is seen.
double evaluate_row(const Call& call, const linear::Head& head, std::int64_t i,
                    std::span<double> out) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    if (!call.mask.sees(head.batch, i, j)) continue;
    const Feature& q = head.queries[i];
    const Feature& k = head.keys[j];
    sum += denominator(call, q, k);
    add_scaled(numerator(call, q, k),
               vector_at(call.inputs.v, head.key_row(call, j), call.shape.head_dim), out);
  }
  for (double& value : out) value = sum == 0.0 ? 0.0 : value / sum;
  return sum;
}

void add_pair_gradient(const Call& call, const Feature& q, const Feature& k, double dnumerator,
                       double ddenominator, Feature& dq, Feature& dk) {
  const double drotated = call.cosine() ? dnumerator + ddenominator : dnumerator;
  add_scaled(drotated, k.rotated, dq.rotated);
  add_scaled(drotated, q.rotated, dk.rotated);
  if (call.cosine()) return;
  add_scaled(ddenominator, k.plain, dq.plain);
  add_scaled(ddenominator, q.plain, dk.plain);
}

struct HeadGradients {
  Feature query;              // of the row at hand
  std::vector<Feature> keys;  // gathered over the rows
};

// With N_i the numerator's sum and Z_i the denominator's: dn_ij = <do_i, v_j> / Z_i and
// dd_ij = -<do_i, o_i> / Z_i, the same for every key.
void row_backward(const Call& call, const linear::Head& head, std::int64_t i,
                  std::span<const double> dout, HeadGradients& dfeature, AttentionGradients& all) {
  const std::int64_t D = call.shape.head_dim;
  std::vector<double> out(dout.size(), 0.0);
  const double sum = evaluate_row(call, head, i, out);
  if (sum == 0.0) return;
  const Feature& q = head.queries[i];
  const double ddenominator = -dot(dout, out) / sum;
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    if (!call.mask.sees(head.batch, i, j)) continue;
    const Feature& k = head.keys[j];
    const std::int64_t row = head.key_row(call, j);
    const double dnumerator = dot(dout, vector_at(call.inputs.v, row, D)) / sum;
    add_scaled(numerator(call, q, k) / sum, dout, vector_at(std::span(all.v), row, D));
    add_pair_gradient(call, q, k, dnumerator, ddenominator, dfeature.query, dfeature.keys[j]);
  }
}

void head_backward(const Call& call, const linear::Head& head, std::span<const double> grad_out,
                   AttentionGradients& all) {
  const std::int64_t D = call.shape.head_dim;
  const std::vector<double> zero(D, 0.0);
  HeadGradients dfeature{{zero, zero}, std::vector<Feature>(head.keys.size(), {zero, zero})};
  for (std::int64_t i = 0; i < call.shape.queries; ++i) {
    const std::int64_t row = head.query_row(call, i);
    dfeature.query = {zero, zero};
    row_backward(call, head, i, vector_at(grad_out, row, D), dfeature, all);
    feature_backward(call, head.query(call, i), dfeature.query, vector_at(std::span(all.q), row, D),
                     all.parameters);
  }
  for (std::int64_t j = 0; j < call.shape.keys; ++j) {
    feature_backward(call, head.key(call, j), dfeature.keys[j],
                     vector_at(std::span(all.k), head.key_row(call, j), D), all.parameters);
  }
}

}  // namespace

LinearAttentionOutput linear_attention(const Spec& spec, const SpecParameters& parameters,
                                       const AttentionShape& shape, const AttentionInputs& inputs,
                                       const LinearAttentionOptions& options) {
  const Call call(spec, parameters, shape, inputs, options);
  LinearAttentionOutput output{std::vector<double>(inputs.q.size(), 0.0), {}};
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const linear::Head head(call, b, h);
      for (std::int64_t i = 0; i < shape.queries; ++i) {
        const auto out = vector_at(std::span(output.out), head.query_row(call, i), shape.head_dim);
        output.denominator.push_back(evaluate_row(call, head, i, out));
      }
    }
  }
  return output;
}

AttentionGradients linear_attention_backward(const Spec& spec, const SpecParameters& parameters,
                                             const AttentionShape& shape,
                                             const AttentionInputs& inputs,
                                             std::span<const double> grad_out,
                                             const LinearAttentionOptions& options) {
  const Call call(spec, parameters, shape, inputs, options);
  require_size(kScope, "grad_out", grad_out.size(), shape.query_size(), "[B, H, Tq, D]");
  AttentionGradients all{std::vector<double>(inputs.q.size(), 0.0),
                         std::vector<double>(inputs.k.size(), 0.0),
                         std::vector<double>(inputs.v.size(), 0.0),
                         {},
                         zeros_like(parameters)};
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      head_backward(call, linear::Head(call, b, h), grad_out, all);
    }
  }
  return all;
}

}  // namespace posenc::ref
