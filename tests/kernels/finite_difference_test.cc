// The check of gradients can fail: it tells wrong gradients from kinks.
#include "support/finite_difference.h"

#include <cmath>

#include "support/attention_case.h"

namespace posenc {
namespace {

using testing::compare_gradient;
using testing::GradientReport;
using testing::gradients_agree;

TEST(FiniteDifference, RefusesASlightlyWrongGradient) {
  std::vector<double> x = {0.3, -1.2};
  const auto loss = [&] { return std::sin(x[0]) + 10.0 * x[1] * x[1]; };
  GradientReport right;
  compare_gradient("x", x, {std::cos(x[0]), 20.0 * x[1]}, loss, right);
  EXPECT_TRUE(gradients_agree(right));
  GradientReport wrong;
  compare_gradient("x", x, {std::cos(x[0]) * (1.0 + 1e-5), 20.0 * x[1]}, loss, wrong);
  EXPECT_EQ(wrong.wrong, 1);
  EXPECT_FALSE(gradients_agree(wrong));
}

TEST(FiniteDifference, CountsKinksAndBoundsThem) {
  for (const double offset : {0.0, 1e-7, 2.5e-6, 1e-5 / 3.0, 4e-6, 5e-6, 9e-6}) {
    std::vector<double> x = {offset, 1.0, 2.0};
    const auto loss = [&] { return std::abs(x[0]) + std::abs(x[1]) + std::abs(x[2]); };
    GradientReport report;
    compare_gradient("x", x, {1.0, 1.0, 1.0}, loss, report);
    EXPECT_EQ(report.kinks, 1) << offset;
    EXPECT_EQ(report.wrong, 0) << offset;
    EXPECT_TRUE(gradients_agree(report));
    compare_gradient("x", x, {1.0, 1.0, 1.0}, loss, report);
    EXPECT_FALSE(gradients_agree(report)) << "two kinks in six entries are too many";
  }
}

TEST(FiniteDifference, SeesAMistakeInAttention) {
  ref::AttentionOptions options;
  options.masking.causal = true;
  const ref::AttentionShape shape{
      .batch = 1, .heads = 2, .kv_heads = 2, .queries = 5, .keys = 5, .head_dim = 4};
  auto problem = testing::random_case("rope(schedule=learnable) + alibi + cope(npos_max=3)", shape,
                                      options, 4);
  const auto loss = [&] { return testing::inner_product(problem.grad_out, problem.forward().out); };
  auto gradients = problem.backward();
  gradients.parameters[0][0][1] += 1e-4;  // alpha
  gradients.k[10] *= 1.001;
  EXPECT_EQ(compare_all_gradients(problem, gradients, loss).wrong, 2);
}

}  // namespace
}  // namespace posenc
