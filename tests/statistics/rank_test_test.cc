#include "statistics/rank_test.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "posenc/core/rng.h"
#include "statistics/estimates.h"

namespace posenc::statistics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every division of the values into two groups, one by one.
double by_enumeration(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  const std::vector<double> ranked = ranks(all, false);
  const double centre = 0.5 * static_cast<double>(a.size() * (all.size() + 1));
  const auto distance = [&](unsigned chosen) {
    double sum = 0.0;
    for (std::size_t i = 0; i < all.size(); ++i) sum += (chosen >> i & 1U) != 0 ? ranked[i] : 0.0;
    return std::abs(sum - centre);
  };
  const double observed = distance((1U << a.size()) - 1U);
  double count = 0.0;
  double as_far = 0.0;
  for (unsigned chosen = 0; chosen < 1U << all.size(); ++chosen) {
    if (static_cast<std::size_t>(std::popcount(chosen)) != a.size()) continue;
    ++count;
    as_far += distance(chosen) >= observed ? 1.0 : 0.0;
  }
  return as_far / count;
}

TEST(RankTest, CompleteSeparationHasTheSmallestPValue) {
  EXPECT_NEAR(rank_test(std::vector{1.0, 2.0, 3.0}, std::vector{4.0, 5.0, 6.0}), 0.1, 1e-12);
  EXPECT_NEAR(rank_test(std::vector{7.0, 8.0, 9.0, 10.0}, std::vector{1.0, 2.0, 3.0, kInfinity}),
              by_enumeration({7, 8, 9, 10}, {1, 2, 3, kInfinity}), 1e-12);
  EXPECT_NEAR(rank_test(std::vector{1.0, 2.0, 3.0, 4.0, 5.0},
                        std::vector{6.0, 7.0, 8.0, kInfinity, kInfinity}),
              2.0 / 252.0, 1e-12);
  EXPECT_EQ(rank_test(std::vector{1.0, 1.0, 1.0}, std::vector{1.0, 1.0}), 1.0);
  EXPECT_EQ(rank_test({}, std::vector{1.0}), 1.0);
}

TEST(RankTest, AgreesWithEnumerationAlsoWithTies) {
  Rng rng(2);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<double> a(static_cast<std::size_t>(rng.integer(1, 6)));
    std::vector<double> b(static_cast<std::size_t>(rng.integer(1, 6)));
    for (double& value : a) value = static_cast<double>(rng.integer(0, 5));
    for (double& value : b) value = static_cast<double>(rng.integer(2, 7));
    EXPECT_NEAR(rank_test(a, b), by_enumeration(a, b), 1e-12) << trial;
  }
}

TEST(ShareOfGreater, CountsTiesHalf) {
  EXPECT_EQ(share_of_greater(std::vector{2.0, 3.0}, std::vector{1.0, 2.0}), 3.5 / 4.0);
  EXPECT_EQ(share_of_greater(std::vector{-kInfinity}, std::vector{-kInfinity, 0.0}), 0.25);
}

}  // namespace
}  // namespace posenc::statistics
