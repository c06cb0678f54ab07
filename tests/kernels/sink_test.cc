// Sinks: what they leave of a row, where they are nothing, and rows without a key.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases/attention_data.h"
#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::causal;
using testing::largest_difference;
using testing::random_case;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 9, .keys = 9, .head_dim = 4};

AttentionCase without_last(AttentionCase problem) {
  problem.spec.encodings.pop_back();
  problem.parameters.pop_back();
  return problem;
}

TEST(Sink, AtMinusInfinityIsNone) {
  AttentionCase sink = random_case("rope + sink", kShape, causal(), 1);
  for (double& logit : sink.parameters[1][0]) logit = -kInfinity;
  const AttentionCase plain = without_last(sink);
  EXPECT_EQ(sink.forward().out, plain.forward().out);
  EXPECT_EQ(sink.forward().lse, plain.forward().lse);
  EXPECT_EQ(sink.backward().k, plain.backward().k);
  EXPECT_EQ(sink.backward().parameters[1][0], std::vector<double>(4, 0.0));
}

TEST(Sink, LeavesTheRestOfARow) {
  const AttentionCase sink = random_case("alibi + sink", kShape, causal(), 2);
  const ref::AttentionOutput plain = without_last(sink).forward();
  const ref::AttentionOutput found = sink.forward();
  for (std::size_t row = 0; row < plain.lse.size(); ++row) {
    const double z = sink.parameters[1][0][row / 9 % 4];
    const double total = std::exp(plain.lse[row]) + std::exp(z);
    EXPECT_NEAR(found.lse[row], std::log(total), 1e-12);
    for (std::size_t c = 4 * row; c < 4 * row + 4; ++c) {
      EXPECT_NEAR(found.out[c], plain.out[c] * std::exp(plain.lse[row]) / total, 1e-12);
    }
  }
}

TEST(Sink, TwoAddUp) {
  AttentionCase two = random_case("sink + sink", kShape, causal(), 3);
  AttentionCase one = without_last(two);
  for (std::size_t h = 0; h < 4; ++h) {
    one.parameters[0][0][h] =
        std::log(std::exp(two.parameters[0][0][h]) + std::exp(two.parameters[1][0][h]));
  }
  EXPECT_LE(largest_difference(two.forward().out, one.forward().out), 1e-13);
  EXPECT_LE(largest_difference(two.backward().q, one.backward().q), 1e-13);
}

TEST(Sink, GradientsMatchDifferences) {
  for (const ref::AttentionOptions& options : testing::causal_settings()) {
    for (const char* spec :
         {"sink", "rope + fox + key_bias + sink", "alibi + cope(npos_max=3) + sink"}) {
      AttentionCase problem = random_case(spec, kShape, options, 4);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
    }
  }
}

// Logits far above and below the scores, on every kernel: no overflow on the way.
TEST(Sink, KernelsAreExactAtLargeLogits) {
  for (const double logit : {-1e4, -80.0, 80.0, 1e4}) {
    for (const cases::Operation op : {cases::Operation::kAttention, cases::Operation::kDecode}) {
      cases::AttentionProblem problem(
          cases::Case{.op = op,
                      .spec = "sink",
                      .queries = op == cases::Operation::kDecode ? 1 : 70,
                      .keys = 70,
                      .head_dim = 16});
      for (double& z : problem.data.parameters[0][0]) z = logit;
      problem.forward();
      const auto found = problem.results(false);
      const auto want = problem.expected(false);
      for (std::size_t r = 0; r < found.size(); ++r) {
        EXPECT_LE(testing::largest_mixed_error(found[r].values, want[r].values), 2e-5)
            << found[r].name << " " << logit;
      }
    }
  }
}

// A row that sees nothing gives the sink nothing: its output is 0, its log-sum-exp that of no key.
TEST(Sink, RowsWithoutAKeyStayEmpty) {
  ref::AttentionOptions options = causal();
  options.masking.key_mask.assign(18, 1);
  std::fill_n(options.masking.key_mask.begin(), 3, std::uint8_t{0});
  const AttentionCase problem = random_case("sink", kShape, options, 5);
  const ref::AttentionOutput found = problem.forward();
  EXPECT_EQ(found.lse[0], -kInfinity);
  EXPECT_EQ(found.out[0], 0.0);
  EXPECT_TRUE(std::isfinite(found.lse[3]));
}

}  // namespace
}  // namespace posenc
