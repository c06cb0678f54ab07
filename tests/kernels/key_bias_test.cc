// A bias per key: what it must equal, and its gradients.
#include <gtest/gtest.h>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::AttentionCase;
using testing::largest_difference;
using testing::random_case;

const ref::AttentionShape kShape{
    .batch = 2, .heads = 4, .kv_heads = 2, .queries = 6, .keys = 9, .head_dim = 4};

// A constant moves every score of a row alike: nothing changes but the sum of exponentials.
TEST(KeyBias, AConstantIsSeenInTheSumAlone) {
  AttentionCase biased = random_case("rope + key_bias", kShape, {}, 3);
  biased.of_encodings[0].assign(biased.of_encodings[0].size(), 2.5);
  AttentionCase plain = biased;
  plain.spec = parse_spec("rope");
  plain.parameters = {{}};
  plain.of_encodings.clear();
  EXPECT_LE(largest_difference(biased.forward().out, plain.forward().out), 1e-13);
  std::vector<double> moved = plain.forward().lse;
  for (double& x : moved) x += 2.5;
  EXPECT_LE(largest_difference(biased.forward().lse, moved), 1e-13);
}

// A number far above the others takes all the weight.
TEST(KeyBias, TheLargestTakesAll) {
  AttentionCase problem = random_case("key_bias", kShape, {}, 4);
  for (std::size_t i = 0; i < problem.of_encodings[0].size(); ++i) {
    problem.of_encodings[0][i] = i % 9 == 5 ? 500.0 : 0.0;
  }
  problem.options.keep_weights = true;
  const std::vector<double> weights = problem.forward().weights;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(weights[i], i % 9 == 5 ? 1.0 : 0.0, 1e-12);
  }
}

TEST(KeyBias, GradientsMatchDifferences) {
  ref::AttentionOptions padded;
  padded.masking.causal = true;
  padded.masking.key_mask = {1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1};
  for (const auto& options : {ref::AttentionOptions{}, padded}) {
    for (const char* spec : {"key_bias", "fox + key_bias", "alibi + key_bias + cope(npos_max=3)"}) {
      AttentionCase problem = random_case(spec, kShape, options, 6);
      const auto report = testing::compare_all_gradients(problem);
      EXPECT_EQ(report.wrong, 0) << spec << " " << report.first_wrong;
      EXPECT_GT(report.checked, 100);
    }
  }
}

}  // namespace
}  // namespace posenc
