// FIRE's bias against its formula, written out with numbers.
#include "posenc/encodings/fire.h"

#include <gtest/gtest.h>

#include <cmath>

namespace posenc {
namespace {

// c, L / init_threshold, w1, b1 of two hidden units, w2 and b2 of two heads.
const Parameters kParameters = {
    {0.5}, {2.0}, {1.0, -3.0}, {0.25, 1.0}, {0.5, 2.0, -1.0, 4.0}, {0.125, -0.5}};
const Fire kFire{.width = 2, .init_threshold = 4.0};

double network(double u, std::size_t head) {
  const double first = std::max(0.0, u + 0.25);
  const double second = std::max(0.0, -3.0 * u + 1.0);
  const double w[2][2] = {{0.5, 2.0}, {-1.0, 4.0}};
  return w[head][0] * first + w[head][1] * second + kParameters[5][head];
}

TEST(Fire, MeasuresDistancesAgainstThePositionPastTheThreshold) {
  // Query 20 is past L = 8: u = psi(d) / (psi(20) + 1e-6), psi(x) = ln(1 + 0.5 x).
  for (const std::int64_t j : {20, 17, 3, 0}) {
    const double u = std::log1p(0.5 * static_cast<double>(20 - j)) / (std::log1p(10.0) + 1e-6);
    EXPECT_NEAR(bias(kFire, kParameters, 0, 20, j), network(u, 0), 1e-12) << j;
    EXPECT_NEAR(bias(kFire, kParameters, 1, 20, j), network(u, 1), 1e-12) << j;
  }
}

TEST(Fire, MeasuresThemAgainstTheThresholdBeforeIt) {
  for (const std::int64_t j : {5, 4, 0}) {
    const double u = std::log1p(0.5 * static_cast<double>(5 - j)) / (std::log1p(4.0) + 1e-6);
    EXPECT_NEAR(bias(kFire, kParameters, 1, 5, j), network(u, 1), 1e-12) << j;
  }
}

}  // namespace
}  // namespace posenc
