// Dropout from a counter: the same weights are dropped wherever and whenever one asks.
#include "posenc/core/dropout.h"

#include <gtest/gtest.h>

#include <set>

#include "support/attention_case.h"

namespace posenc {
namespace {

TEST(Dropout, FactorsAreThoseOfTheCounter) {
  const Dropout dropout{.rate = 0.25, .seed = 0x123456789abcdef0u};
  EXPECT_EQ(dropout.threshold(), 1u << 30);
  for (std::uint32_t key = 0; key < 40; ++key) {
    const auto words = philox4x32({key / 4, 7, 3, 2}, {0x9abcdef0u, 0x12345678u});
    const double expected = words[key % 4] < dropout.threshold() ? 0.0 : 1.0 / 0.75;
    EXPECT_EQ(dropout_factor(dropout, 2, 3, 7, key), expected);
  }
}

TEST(Dropout, DropsTheShareAskedFor) {
  for (const double rate : {0.05, 0.5, 0.9}) {
    const Dropout dropout{.rate = rate, .seed = 3};
    int dropped = 0;
    for (int n = 0; n < 40000; ++n) {
      if (dropout_factor(dropout, n % 2, n / 2 % 4, n / 8 % 50, n / 400) == 0.0) ++dropped;
    }
    EXPECT_NEAR(dropped / 40000.0, rate, 0.01);
  }
}

TEST(Dropout, EveryIndexAndTheSeedMatter) {
  const auto pattern = [](std::uint64_t seed, int b, int h, int i) {
    std::vector<double> row;
    for (int j = 0; j < 64; ++j) {
      row.push_back(dropout_factor({.rate = 0.5, .seed = seed}, b, h, i, j));
    }
    return row;
  };
  const std::set<std::vector<double>> patterns = {
      pattern(1, 0, 0, 0), pattern(2, 0, 0, 0), pattern(1, 1, 0, 0),
      pattern(1, 0, 1, 0), pattern(1, 0, 0, 1), pattern(1ull << 32, 0, 0, 0)};
  EXPECT_EQ(patterns.size(), 6u);
  EXPECT_EQ(dropout_factor({.rate = 0.0, .seed = 1}, 0, 0, 0, 0), 1.0);
}

// o_i = SUM_j w_ij factor_ij v_j, with w and the log-sum-exp as without dropout.
TEST(Dropout, AppliesToTheWeightsOfAttention) {
  const ref::AttentionShape shape{
      .batch = 2, .heads = 2, .kv_heads = 1, .queries = 5, .keys = 6, .head_dim = 3};
  auto problem = testing::random_case("alibi", shape, {}, 9);
  problem.options.keep_weights = true;
  const auto plain = problem.forward();
  problem.options.dropout = {.rate = 0.4, .seed = 8};
  const auto output = problem.forward();
  EXPECT_EQ(output.weights, plain.weights);
  EXPECT_EQ(output.lse, plain.lse);
  std::vector<double> expected(output.out.size(), 0.0);
  for (std::size_t row = 0; row < 2 * 2 * 5; ++row) {
    const auto r = static_cast<std::int64_t>(row);
    for (std::size_t j = 0; j < 6; ++j) {
      const double factor = dropout_factor(problem.options.dropout, r / 10, r / 5 % 2, r % 5,
                                           static_cast<std::int64_t>(j));
      for (std::size_t c = 0; c < 3; ++c) {
        expected[3 * row + c] +=
            output.weights[6 * row + j] * factor * problem.v[row / 10 * 18 + 3 * j + c];
      }
    }
  }
  EXPECT_LE(testing::largest_difference(output.out, expected), 1e-14);
}

}  // namespace
}  // namespace posenc
