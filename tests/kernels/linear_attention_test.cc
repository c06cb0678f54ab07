// Linear attention with RoPE, both forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::inner_product;
using testing::largest_difference;
using testing::random_case;
using Options = ref::LinearAttentionOptions;

const std::vector<std::string> kSpecs = {
    "none",
    "rope",
    "rope(layout=interleaved, rotary_dim=2, dim_offset=1)",
    "rope(schedule=learnable)",
    "rope(schedule=yarn(factor=4, original_max_position_embeddings=8))",
    "xpos(scale_base=8)",
    "xpos(scale_base=8) + rope(schedule=learnable)"};

std::vector<Options> all_options() {
  std::vector<Options> all(3);
  all[1].feature_map = Options::FeatureMap::kRelu;
  all[1].epsilon = 0.1;
  all[2].form = Options::Form::kCosine;
  return all;
}

ref::AttentionShape shape_of(std::int64_t H, std::int64_t Hkv, std::int64_t Tq, std::int64_t Tk) {
  return {.batch = 1, .heads = H, .kv_heads = Hkv, .queries = Tq, .keys = Tk, .head_dim = 4};
}

ref::LinearAttentionOutput forward(const AttentionCase& problem, const Options& options) {
  return ref::linear_attention(problem.spec, problem.parameters, problem.shape, problem.inputs(),
                               options);
}

void expect_gradients(AttentionCase& problem, const Options& options) {
  const auto gradients = ref::linear_attention_backward(
      problem.spec, problem.parameters, problem.shape, problem.inputs(), problem.grad_out, options);
  const auto report = compare_all_gradients(problem, gradients, [&] {
    return inner_product(problem.grad_out, forward(problem, options).out);
  });
  EXPECT_TRUE(gradients_agree(report));
}

TEST(LinearAttention, GradientsAgreeWithDifferences) {
  std::vector<std::string> specs = kSpecs;
  specs.emplace_back("rope(schedule=learnable, theta=[10, 1000])");
  for (const std::string& spec : specs) {
    for (Options options : all_options()) {
      SCOPED_TRACE(spec);
      AttentionCase plain = random_case(spec, shape_of(2, 2, 5, 5), {}, 1);
      expect_gradients(plain, options);
      options.masking.causal = true;
      expect_gradients(plain, options);
      AttentionCase grouped = random_case(spec, shape_of(4, 2, 6, 5), {}, 2);
      options.masking.cu_queries = {0, 2, 6};
      options.masking.cu_keys = {0, 1, 5};
      options.masking.key_mask = {1, 1, 0, 1, 1};
      expect_gradients(grouped, options);
    }
  }
}

TEST(LinearAttention, ARowOfTheCausalFormSeesAShorterSequence) {
  for (const std::string& spec : kSpecs) {
    for (Options options : all_options()) {
      const AttentionCase whole = random_case(spec, shape_of(1, 1, 6, 6), {}, 3);
      options.lengths.sequence = 6;
      Options causal = options;
      causal.masking.causal = true;
      const auto expected = forward(whole, causal);
      for (std::int64_t row = 0; row < 6; ++row) {
        AttentionCase part = whole;
        part.shape = shape_of(1, 1, row + 1, row + 1);
        for (auto* tensor : {&part.q, &part.k, &part.v}) {
          tensor->resize(static_cast<std::size_t>(4 * (row + 1)));
        }
        const auto output = forward(part, options);
        const auto n = static_cast<std::size_t>(row);
        EXPECT_EQ(output.denominator[n], expected.denominator[n]);
        for (std::size_t c = 0; c < 4; ++c) {
          EXPECT_EQ(output.out[4 * n + c], expected.out[4 * n + c]) << spec;
        }
      }
    }
  }
}

// The promise of linear attention: a state SUM_j k_j v_j^T, carried from key to key, is enough.
TEST(LinearAttention, ARunningStateGivesTheSame) {
  const AttentionCase problem = random_case("rope", shape_of(1, 1, 7, 7), {}, 4);
  Options options;
  options.masking.causal = true;
  const auto expected = forward(problem, options);
  const Rotary rotary = make_rotary(Rope{}, {.head_dim = 4, .heads = 1, .model_dim = 0}, {7, 0});
  const auto phi = [](std::vector<double> x) {
    for (double& value : x) value = value > 0.0 ? value + 1.0 : std::exp(value);
    return x;
  };
  const ref::RopeShape rope_shape{.batch = 1, .heads = 1, .tokens = 7, .head_dim = 4};
  const std::vector<std::int64_t> positions = {0, 1, 2, 3, 4, 5, 6};
  const auto q = phi(problem.q);
  const auto k = phi(problem.k);
  const auto rotated_q = ref::rope(rotary, Role::kQuery, rope_shape, q, positions);
  const auto rotated_k = ref::rope(rotary, Role::kKey, rope_shape, k, positions);
  std::vector<double> state(16, 0.0);
  std::vector<double> sum(4, 0.0);
  for (std::size_t t = 0; t < 7; ++t) {
    double denominator = 0.0;
    std::vector<double> numerator(4, 0.0);
    for (std::size_t c = 0; c < 4; ++c) {
      sum[c] += k[4 * t + c];
      denominator += q[4 * t + c] * sum[c];
      for (std::size_t d = 0; d < 4; ++d) {
        state[4 * c + d] += rotated_k[4 * t + c] * problem.v[4 * t + d];
        numerator[d] += rotated_q[4 * t + c] * state[4 * c + d];
      }
    }
    for (std::size_t d = 0; d < 4; ++d) {
      EXPECT_NEAR(expected.out[4 * t + d], numerator[d] / denominator, 1e-13);
    }
  }
}

TEST(LinearAttention, DenominatorsArePositiveAndCosinesAverage) {
  for (const std::string& spec : kSpecs) {
    for (const Options& options : all_options()) {
      const AttentionCase problem = random_case(spec, shape_of(1, 1, 6, 6), {}, 5);
      const auto output = forward(problem, options);
      for (const double z : output.denominator) EXPECT_GT(z, 0.0);
      if (options.form != Options::Form::kCosine) continue;
      // Weights in [0, 2] that are divided by their sum: an output is a mean of the values.
      for (std::size_t n = 0; n < output.out.size(); ++n) {
        double low = HUGE_VAL;
        double high = -HUGE_VAL;
        for (std::size_t j = n % 4; j < problem.v.size(); j += 4) {
          low = std::min(low, problem.v[j]);
          high = std::max(high, problem.v[j]);
        }
        EXPECT_GE(output.out[n], low - 1e-12);
        EXPECT_LE(output.out[n], high + 1e-12);
      }
    }
  }
}

TEST(LinearAttention, RopeSeesDistancesAlone) {
  for (const char* spec : {"rope", "rope(schedule=learnable, theta=[10, 1000])"}) {
    for (Options options : all_options()) {
      const AttentionCase problem = random_case(spec, shape_of(2, 2, 6, 6), {}, 6);
      const auto expected = forward(problem, options);
      const std::vector<std::int64_t> starts = {19};
      options.positions.query = ref::offset_positions(starts, 6);
      options.positions.key = options.positions.query;
      EXPECT_LE(largest_difference(forward(problem, options).out, expected.out), 1e-12);
    }
  }
}

TEST(LinearAttention, ZeroVectorsAndUnseenKeysGiveNoNan) {
  for (Options options : all_options()) {
    AttentionCase problem = random_case("rope", shape_of(1, 1, 4, 3), {}, 7);
    std::fill_n(problem.q.begin() + 4, 8, 0.0);
    std::fill_n(problem.k.begin(), 4, 0.0);
    options.masking.causal = true;  // query 0 comes before every key
    const auto output = forward(problem, options);
    const auto gradients =
        ref::linear_attention_backward(problem.spec, problem.parameters, problem.shape,
                                       problem.inputs(), problem.grad_out, options);
    EXPECT_EQ(output.denominator[0], 0.0);
    for (std::size_t c = 0; c < 4; ++c) {
      EXPECT_EQ(output.out[c], 0.0);
      EXPECT_EQ(gradients.q[c], 0.0);
    }
    for (const auto* tensor : {&output.out, &gradients.q, &gradients.k, &gradients.v}) {
      for (const double x : *tensor) EXPECT_TRUE(std::isfinite(x));
    }
  }
}

TEST(LinearAttention, RefusesWhatNeedsARowOfScores) {
  for (const char* spec : {"alibi", "rope + cope", "t5"}) {
    const AttentionCase problem = random_case(spec, shape_of(1, 1, 3, 3), {}, 8);
    EXPECT_THROW(forward(problem, {}), Error) << spec;
  }
  Options window;
  window.masking.window_left = 2;
  EXPECT_THROW(forward(random_case("rope", shape_of(1, 1, 3, 3), {}, 8), window), Error);
}

}  // namespace
}  // namespace posenc
