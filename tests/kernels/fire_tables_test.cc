// FIRE's tables where numbers are so large that neighbouring ones are more than one apart.
#include "kernels/fire_tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "encodings/score_formulas.h"

namespace posenc {
namespace {

// One hidden unit that switches far beyond every u: it is active at all of them, or at none.
TEST(FireTables, UnitsThatSwitchFarAwayKeepTheirSide) {
  const Fire config{.width = 1};
  for (const double power : {20.0, 52.0, 53.0, 54.0, 60.0}) {
    const double far = std::exp2(power);
    for (const double w1 : {-1.0, 1.0}) {
      for (const double b1 : {far, -far}) {
        const Parameters values = {{0.1}, {1.0}, {w1}, {b1}, {1.0 / far}, {0.5}};
        const FireTables tables(config, values, 1, {.before = 4, .places = 8});
        const cpu::FireProblem p = tables.problem(0);
        std::size_t segment = 0;  // of u = 0.25
        while (segment + 1 < p.segments && p.bounds[segment + 1] <= 0.25f) ++segment;
        const double want = b1 > 0 ? 1.5 : 0.5;
        EXPECT_NEAR(p.slopes[segment] * 0.25 + p.intercepts[segment], want, 1e-5)
            << "2^" << power << " w1 " << w1 << " b1 " << b1;
      }
    }
  }
}

TEST(FireTables, ActiveUnitsAreThoseOfTheNetwork) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto active = [](double w, double b, double low, double high) {
    return static_cast<bool>(formulas::fire_unit_active(w, b, low, high));
  };
  EXPECT_TRUE(active(2.0, -4.0, 2.0, kInfinity));
  EXPECT_FALSE(active(2.0, -4.0, -kInfinity, 2.0));
  EXPECT_TRUE(active(-2.0, 4.0, -kInfinity, 2.0));
  EXPECT_FALSE(active(-2.0, 4.0, 2.0, 3.0));
  EXPECT_TRUE(active(0.0, 1.0, 0.0, 1.0)) << "never switches, always active";
  EXPECT_FALSE(active(0.0, 0.0, 0.0, 1.0));
  EXPECT_FALSE(active(0.0, -1.0, -kInfinity, kInfinity));
}

}  // namespace
}  // namespace posenc
