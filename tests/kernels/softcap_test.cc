// The soft bound of scores: where it is nothing, what it bounds, and its gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "cases/attention_data.h"
#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};

void expect_reference(cases::AttentionProblem& problem) {
  problem.forward();
  const auto found = problem.results(false);
  const auto want = problem.expected(false);
  for (std::size_t r = 0; r < found.size(); ++r) {
    EXPECT_LE(testing::largest_mixed_error(found[r].values, want[r].values), 2e-5) << found[r].name;
  }
}

TEST(Softcap, FarAboveTheScoresIsNone) {
  AttentionCase bounded = random_case("rope + softcap(cap=1e6)", kShape, causal(), 1);
  AttentionCase plain = bounded;
  plain.spec.encodings.pop_back();
  plain.parameters.pop_back();
  EXPECT_LE(largest_difference(bounded.forward().out, plain.forward().out), 1e-9);
  EXPECT_LE(largest_difference(bounded.backward().k, plain.backward().k), 1e-9);
}

// Two keys differ by less than twice the cap, whatever their scores are.
TEST(Softcap, BoundsTheRatioOfWeights) {
  AttentionCase problem = random_case("alibi + softcap(cap=0.5)", kShape, causal(), 2);
  for (double& x : problem.q) x *= 100.0;
  problem.options.keep_weights = true;
  const std::vector<double> weights = problem.forward().weights;
  for (std::size_t row = 0; row < weights.size() / 9; ++row) {
    for (std::size_t j = 0; j <= row % 9; ++j) {
      EXPECT_LT(std::abs(std::log(weights[9 * row + j] / weights[9 * row])), 1.0 + 1e-12);
    }
  }
}

TEST(Softcap, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec : {"softcap(cap=1)", "rope + fox + softcap(cap=1) + sink",
                             "alibi + cope(npos_max=3, gates_see_bias=true) + softcap(cap=2)",
                             "softcap(cap=3) + softcap(cap=1)"}) {
      AttentionCase problem = random_case(spec, kShape, options, 3);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

// Scores from far below the cap to far above it, near 0 and past where tanh is 1 in float32.
TEST(Softcap, KernelsAreExactAtEverySize) {
  for (const double size : {1e-3, 1.0, 30.0, 3000.0}) {
    for (const std::int64_t queries : {1, 70}) {
      cases::AttentionProblem problem(
          cases::Case{.spec = "softcap(cap=5)", .queries = queries, .keys = 70, .head_dim = 16});
      std::vector<double> q = problem.data.q.values();
      for (double& x : q) x *= size;
      problem.data.q.assign(q);
      SCOPED_TRACE(::testing::Message() << size << " " << queries);
      expect_reference(problem);
    }
  }
}

// Keys of infinite size: a score of -infinity is bounded as any other, and its key keeps its weight.
TEST(Softcap, InfiniteScoresAreBounded) {
  for (const double size : {HUGE_VAL, -HUGE_VAL}) {
    for (const std::int64_t queries : {1, 70}) {
      cases::AttentionProblem problem(
          cases::Case{.spec = "softcap(cap=2)", .queries = queries, .keys = 70, .head_dim = 8});
      std::vector<double> k = problem.data.k.values();
      for (std::size_t channel = 0; channel < k.size(); channel += 3 * 8) k[channel] = size;
      problem.data.k.assign(k);
      SCOPED_TRACE(::testing::Message() << size << " " << queries);
      expect_reference(problem);
    }
  }
}

}  // namespace
}  // namespace posenc
