#include "posenc/encodings/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "posenc/core/error.h"
#include "posenc/encodings/analysis.h"
#include "support/random_spec.h"

namespace posenc {
namespace {

constexpr ModelShape kShape{.head_dim = 32, .heads = 4};
constexpr Lengths kLengths{.sequence = 4096, .context = 4096};

std::vector<double> random_head(Rng& rng) {
  std::vector<double> x(static_cast<std::size_t>(kShape.head_dim));
  for (double& value : x) value = rng.normal();
  return x;
}

std::vector<double> turned(const Rotary& rotary, std::int64_t position, std::vector<double> x,
                           Role role = Role::kKey) {
  std::vector<double> cos(static_cast<std::size_t>(rotary.pairs()));
  std::vector<double> sin(cos.size());
  const std::vector<std::int64_t> at(static_cast<std::size_t>(rotary.axes.axes), position);
  rotary_row(rotary, role, 0, at, cos, sin);
  rotate(rotary, cos, sin, x);
  return x;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

// Norms, the group law, the inverse and dependence on i - j alone, for every schedule, layout,
// window and choice of axes.
TEST(Rotary, ThousandsOfRandomRopesKeepTheLaws) {
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    const Rope rope = testing::random_rope(rng, kShape);
    const LawViolations worst =
        check_laws(make_rotary(rope, kShape, kLengths), 8192, 2, static_cast<std::uint64_t>(i));
    const std::string text = to_text(Spec{{rope}});
    ASSERT_LT(worst.norm, 1e-12) << text;
    ASSERT_LT(worst.group, 1e-10) << text;
    ASSERT_LT(worst.inverse, 1e-12) << text;
    ASSERT_LT(worst.relative, 1e-10) << text;
  }
}

TEST(Rotary, InverseTurnsTheOtherWay) {
  const Rotary forward = make_rotary(Rope{}, kShape, kLengths);
  const Rotary back = make_rotary(Rope{.inverse = true}, kShape, kLengths);
  Rng rng(4);
  const std::vector<double> x = random_head(rng);
  EXPECT_GT(forward.angle(0, 1, 7), 0.0);
  EXPECT_EQ(back.angle(0, 1, 7), -forward.angle(0, 1, 7));
  EXPECT_LT(largest_difference(turned(back, 7, turned(forward, 7, x)), x), 1e-12);
}

// zeta^((n - center) / scale_base) for queries, its inverse for keys.
TEST(Rotary, XposMagnitudesAreOneAtTheCenter) {
  const Xpos xpos{.scale_base = 64.0, .center = 10.0};
  const Rotary rotary = make_rotary(xpos, kShape, kLengths);
  for (std::int64_t p = 0; p < rotary.pairs(); ++p) {
    const double zeta = (2.0 * static_cast<double>(p) / 32.0 + 0.4) / 1.4;
    EXPECT_DOUBLE_EQ(rotary.magnitude(Role::kQuery, p, 10), 1.0);
    EXPECT_NEAR(rotary.magnitude(Role::kQuery, p, 74), zeta, 1e-12);
    EXPECT_NEAR(rotary.magnitude(Role::kKey, p, 74), 1.0 / zeta, 1e-12);
  }
}

TEST(Rotary, TheLawsCanBeBroken) {
  Rotary rotary = make_rotary(Rope{}, kShape, kLengths);
  rotary.log_zeta.assign(16, -0.5);  // grows with the position: no longer a rotation
  EXPECT_GT(check_laws(rotary, 512, 20, 1).norm, 0.1);
  rotary = make_rotary(Rope{.precision = Precision::kHf}, kShape, kLengths);
  EXPECT_GT(check_laws(rotary, 1 << 22, 50, 1).relative, 1e-4) << "float32 angles drift";
}

TEST(Rotary, XposScoresDecayAndDependOnDistanceAlone) {
  const Rotary rotary = make_rotary(Xpos{}, kShape, kLengths);
  EXPECT_LT(check_laws(rotary, 4096, 50, 5).relative, 1e-9);
  // Aligned with itself, a pair's score shrinks by zeta^(distance/scale_base).
  std::vector<double> x(32, 0.0);
  x[0] = 1.0;
  const auto score = [&](std::int64_t i, std::int64_t j) {
    const auto q = turned(rotary, i, x, Role::kQuery);
    const auto k = turned(rotary, j, x, Role::kKey);
    return std::hypot(q[0], q[16]) * std::hypot(k[0], k[16]);
  };
  const double zeta = 0.4 / 1.4;
  EXPECT_NEAR(score(700, 700), 1.0, 1e-12);
  EXPECT_NEAR(score(700, 188), std::pow(zeta, 1.0), 1e-12);
  EXPECT_NEAR(score(1212, 188), std::pow(zeta, 2.0), 1e-12);
}

TEST(Rotary, LayoutsAreAPermutationOfEachOther) {
  Rng rng(4);
  const Rotary half = make_rotary(Rope{}, kShape, kLengths);
  const Rotary interleaved =
      make_rotary(Rope{.layout = PairLayout::kInterleaved}, kShape, kLengths);
  const std::vector<double> x = random_head(rng);
  std::vector<double> shuffled(32);
  for (std::size_t p = 0; p < 16; ++p) {
    shuffled[2 * p] = x[p];
    shuffled[2 * p + 1] = x[p + 16];
  }
  const auto a = turned(half, 77, x);
  const auto b = turned(interleaved, 77, shuffled);
  for (std::size_t p = 0; p < 16; ++p) {
    EXPECT_DOUBLE_EQ(a[p], b[2 * p]);
    EXPECT_DOUBLE_EQ(a[p + 16], b[2 * p + 1]);
  }
}

TEST(Rotary, ChannelsOutsideTheWindowPass) {
  Rng rng(5);
  const Rotary rotary = make_rotary(Rope{.rotary_dim = 8, .dim_offset = 10}, kShape, kLengths);
  const std::vector<double> x = random_head(rng);
  const auto y = turned(rotary, 99, x);
  for (std::size_t c = 0; c < 32; ++c) {
    if (c < 10 || c >= 18) {
      EXPECT_EQ(y[c], x[c]);
    } else {
      EXPECT_NE(y[c], x[c]);
    }
  }
}

TEST(Rotary, ThetaPerGroupOfHeads) {
  const Rope rope{.theta = {1e4, 1e6}};
  const Rotary rotary = make_rotary(rope, kShape, kLengths);
  EXPECT_EQ(rotary.groups(), 2);
  EXPECT_EQ(rotary.group_of(0, 4), 0);
  EXPECT_EQ(rotary.group_of(1, 4), 0);
  EXPECT_EQ(rotary.group_of(3, 4), 1);
  EXPECT_EQ(rotary.inv_freq[1], make_rotary(Rope{.theta = {1e6}}, kShape, kLengths).inv_freq[0]);
}

TEST(Rotary, LearnableFrequenciesStartAtTheDefaultAndFollowAlpha) {
  const Rope rope{.schedule = LearnableSchedule{}};
  const Rotary plain = make_rotary(Rope{}, kShape, kLengths);
  EXPECT_EQ(make_rotary(rope, kShape, kLengths).inv_freq, plain.inv_freq);
  std::vector<double> alpha(16, 0.0);
  alpha[3] = std::log(2.0);
  const Rotary moved = make_rotary(rope, kShape, kLengths, alpha);
  EXPECT_NEAR(moved.inv_freq[0][3], 2.0 * plain.inv_freq[0][3], 1e-15);
  EXPECT_EQ(moved.inv_freq[0][4], plain.inv_freq[0][4]);
  EXPECT_THROW(make_rotary(Rope{}, kShape, kLengths, alpha), Error);
  alpha.pop_back();
  EXPECT_THROW(make_rotary(rope, kShape, kLengths, alpha), Error);
}

TEST(Rotary, AxialBlocksHaveTheirOwnFrequenciesAndCoordinates) {
  const Rotary rotary = make_rotary(Rope{.axes = AxialAxes{}}, kShape, kLengths);
  ASSERT_EQ(rotary.axes.axes, 2);
  for (std::size_t p = 0; p < 8; ++p) {
    EXPECT_EQ(rotary.inv_freq[0][p], rotary.inv_freq[0][p + 8]);
    EXPECT_NEAR(rotary.inv_freq[0][p], std::pow(1e4, -2.0 * static_cast<double>(p) / 16.0), 1e-15);
  }
  std::vector<double> cos(16);
  std::vector<double> sin(16);
  const std::int64_t at[] = {5, 0};
  rotary_row(rotary, Role::kQuery, 0, at, cos, sin);
  EXPECT_NEAR(sin[0], std::sin(5.0), 1e-15);
  EXPECT_EQ(sin[8], 0.0) << "the second block reads the second coordinate";
}

TEST(Rotary, InterleavedSectionsForAnyNumberOfAxes) {
  const AxisPlan plan = plan_axes(MropeInterleavedAxes{{4, 2, 1, 1}}, 8);
  EXPECT_EQ(plan.axes, 4);
  EXPECT_EQ(plan.axis_of_pair, (std::vector<std::int32_t>{0, 1, 2, 3, 0, 1, 0, 0}));
}

// Moving keys that are already rotated: no attention factor a second time, whatever the schedule.
TEST(Rerotate, EqualsRotatingAtTheNewPositionForEverySchedule) {
  Rng rng(6);
  for (int i = 0; i < 500; ++i) {
    const Rope rope = testing::random_rope(rng, kShape);
    const Rotary rotary = make_rotary(rope, kShape, kLengths);
    const std::vector<double> key = random_head(rng);
    const std::int64_t position = rng.integer(0, 4000);
    const std::int64_t delta = rng.integer(-position, 4000);
    std::vector<double> moved = turned(rotary, position, key);
    rerotate(rotary, delta, 0, moved);
    ASSERT_LT(largest_difference(moved, turned(rotary, position + delta, key)), 1e-10)
        << to_text(Spec{{rope}});
  }
}

TEST(Rerotate, FromOneScheduleToAnotherKeepsLengthOrTakesTheTargets) {
  Rng rng(7);
  const Rotary from = make_rotary(Rope{}, kShape, kLengths);
  const Rotary to = make_rotary(
      Rope{.theta = {1e6},
           .schedule = YarnSchedule{.factor = 8, .original_max_position_embeddings = 512}},
      kShape, kLengths);
  ASSERT_GT(to.attention_factor, 1.1);
  const std::vector<double> key = random_head(rng);
  const std::int64_t at_from[] = {100};
  const std::int64_t at_to[] = {40};
  std::vector<double> unit = turned(from, 100, key);
  rerotate(from, at_from, to, at_to, 0, unit);
  std::vector<double> fresh = turned(to, 40, key);
  for (double& x : fresh) x /= to.attention_factor;
  EXPECT_LT(largest_difference(unit, fresh), 1e-12);
  std::vector<double> target = turned(from, 100, key);
  rerotate(from, at_from, to, at_to, 0, target, RerotateMagnitude::kTarget);
  EXPECT_LT(largest_difference(target, turned(to, 40, key)), 1e-12);
}

TEST(Rerotate, XposKeysKeepTheirDecay) {
  Rng rng(8);
  const Rotary rotary = make_rotary(Xpos{}, kShape, kLengths);
  const std::vector<double> key = random_head(rng);
  std::vector<double> moved = turned(rotary, 1000, key);
  rerotate(rotary, -600, 0, moved);
  EXPECT_LT(largest_difference(moved, turned(rotary, 400, key)), 1e-10);
}

TEST(Rerotate, AnotherGeometryIsRefused) {
  const Rotary half = make_rotary(Rope{}, kShape, kLengths);
  const Rotary interleaved =
      make_rotary(Rope{.layout = PairLayout::kInterleaved}, kShape, kLengths);
  std::vector<double> key(32, 1.0);
  const std::int64_t zero[] = {0};
  EXPECT_THROW(rerotate(half, zero, interleaved, zero, 0, key), Error);
}

}  // namespace
}  // namespace posenc
