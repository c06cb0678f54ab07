// A call of linear attention with its tensors, and the same for the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "posenc/kernels/linear_attention.h"
#include "posenc/kernels/reference.h"
#include "support/tensor.h"

namespace posenc::testing {

struct LinearCase {
  std::string spec = "rope";
  LinearAttentionOptions options = {};
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 2;
  std::int64_t queries = 70;
  std::int64_t keys = 70;
  std::int64_t head_dim = 16;
  bool causal = true;
  bool padding = false;
  std::vector<std::int64_t> cumulative = {};
  std::vector<std::int64_t> cumulative_keys = {};
  std::int64_t offset = 0;  // of all positions
  Order order = Order::kDense;
  DType dtype = DType::kFloat32;
};

inline std::string name_of(const LinearCase& c) {
  const bool cosine = c.options.form == LinearAttentionOptions::Form::kCosine;
  const bool relu = c.options.feature_map == LinearAttentionOptions::FeatureMap::kRelu;
  return c.spec +
         (cosine ? " cosine"
          : relu ? " relu"
                 : " elu") +
         " B" + std::to_string(c.batch) + " H" + std::to_string(c.heads) + "/" +
         std::to_string(c.kv_heads) + " T" + std::to_string(c.queries) + "x" +
         std::to_string(c.keys) + " D" + std::to_string(c.head_dim) +
         (c.causal ? " causal " : " ") + dtype_name(c.dtype);
}

// elu, relu and the cosine.
inline std::vector<LinearAttentionOptions> linear_forms() {
  std::vector<LinearAttentionOptions> all(3);
  all[1].feature_map = LinearAttentionOptions::FeatureMap::kRelu;
  all[1].epsilon = 0.1;
  all[2].form = LinearAttentionOptions::Form::kCosine;
  return all;
}

class LinearFixture {
 public:
  explicit LinearFixture(const LinearCase& config)
      : c(config),
        spec(parse_spec(c.spec)),
        shape{.head_dim = c.head_dim, .heads = c.heads},
        plan(spec, shape, c.kv_heads, {std::max<std::int64_t>(c.keys, 1)}),
        q({c.batch, c.heads, c.queries, c.head_dim}, c.dtype, c.order),
        k({c.batch, c.kv_heads, c.keys, c.head_dim}, c.dtype, c.order),
        v(k),
        out(q),
        grad_out(q),
        dq(q),
        dk(k),
        dv(k) {
    Rng rng(11);
    exact_q = q.fill_random(rng);
    exact_k = k.fill_random(rng);
    exact_v = v.fill_random(rng);
    exact_grad_out = grad_out.fill_random(rng);
    for (Tensor* t : {&out, &dq, &dk, &dv}) t->fill(NAN);
    for (const Encoding& e : spec.encodings) {
      Parameters values = initial_parameters(posenc::parameters(e, shape), rng);
      for (auto& list : values) {
        for (double& x : list) x = static_cast<float>(x + 0.1 * rng.normal());
      }
      parameters.push_back(values);
    }
    denominator.assign(static_cast<std::size_t>(c.batch * c.heads * c.queries), NAN);
    key_mask.assign(static_cast<std::size_t>(c.batch * c.keys), 1);
    for (std::uint8_t& m : key_mask) m = c.padding && rng.uniform() < 0.3 ? 0 : 1;
    offsets.assign(static_cast<std::size_t>(c.batch), c.offset);
  }

  LinearAttentionCall call() {
    LinearAttentionCall result;
    result.plan = &plan;
    result.parameters = &parameters;
    result.q = q.view();
    result.k = k.view();
    result.v = v.view();
    result.out = out.view();
    result.denominator = denominator;
    result.mask.causal = c.causal;
    if (c.padding) result.mask.key_mask = key_mask.data();
    result.mask.cu_queries = c.cumulative;
    result.mask.cu_keys = c.cumulative_keys;
    if (c.offset != 0) result.q_positions.offsets = result.k_positions.offsets = offsets;
    result.options = c.options;
    return result;
  }

  LinearAttentionBackwardCall backward_call() {
    LinearAttentionBackwardCall result;
    result.forward = call();
    result.grad_out = grad_out.view();
    result.dq = dq.view();
    result.dk = dk.view();
    result.dv = dv.view();
    result.dparameters = &dparameters;
    return result;
  }

  [[nodiscard]] ref::AttentionShape ref_shape() const {
    return {c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.head_dim};
  }
  [[nodiscard]] ref::AttentionInputs ref_inputs() const { return {exact_q, exact_k, exact_v, {}}; }
  [[nodiscard]] ref::LinearAttentionOptions ref_options() const {
    using Ref = ref::LinearAttentionOptions;
    Ref options;
    options.form = static_cast<Ref::Form>(c.options.form);
    options.feature_map = static_cast<Ref::FeatureMap>(c.options.feature_map);
    options.epsilon = c.options.epsilon;
    options.masking = {c.causal, -1, -1, {}, c.cumulative, c.cumulative_keys};
    if (c.padding) options.masking.key_mask = key_mask;
    options.lengths = {std::max<std::int64_t>(c.keys, 1)};
    if (c.offset != 0) {
      options.positions.query = ref::offset_positions(offsets, c.queries);
      options.positions.key = ref::offset_positions(offsets, c.keys);
    }
    return options;
  }

  LinearCase c;
  Spec spec;
  ModelShape shape;
  AttentionPlan plan;
  Tensor q, k, v, out, grad_out, dq, dk, dv;
  std::vector<double> exact_q, exact_k, exact_v, exact_grad_out;
  std::vector<Parameters> parameters;
  std::vector<Parameters> dparameters;
  std::vector<float> denominator;
  std::vector<std::uint8_t> key_mask;
  std::vector<std::int64_t> offsets;
};

// |got - want| against the size of the whole result: float32 sums cancel.
inline void expect_close(const std::vector<double>& got, const std::vector<double>& want,
                         double relative, const std::string& what, double least = 1e-2) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = least;
  for (const double x : want) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], relative * largest) << what << " at " << i;
  }
}

inline double storage_tolerance(DType dtype) {
  if (dtype == DType::kFloat32) return 1e-5;
  return dtype == DType::kBfloat16 ? 0x1.2p-8 : 0x1.2p-11;
}

}  // namespace posenc::testing
