// Sinusoidal vectors and rotations: the figures' numbers against formulas written out here.
#include <cmath>
#include <numbers>

#include "plots/figures.h"

namespace posenc {
namespace {

using plots::plot;
using plots::PlotRequest;
using testing::cell;
using testing::curve_of;
using testing::panel_of;
using testing::request_of;

double frequency(double theta, std::int64_t pair, std::int64_t dim) {
  return std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
}

// The product of a rotated vector of ones with itself, over its square length.
double mean_cosine(double theta, std::int64_t dim, std::int64_t distance) {
  double sum = 0.0;
  for (std::int64_t p = 0; p < dim / 2; ++p) {
    sum += std::cos(static_cast<double>(distance) * frequency(theta, p, dim));
  }
  return sum / (static_cast<double>(dim) / 2.0);
}

TEST(PlotSinusoidal, MapAndCurvesAreTheFormula) {
  PlotRequest request = request_of("sinusoidal", {"sinusoidal(theta=100)"});
  request.head_dim = 12;
  request.length = 50;
  const draw::Figure map = plot(request);
  request.kind = "sinusoidal-curves";
  request.dimensions = {0, 3, 10};
  const draw::Figure curves = plot(request);
  for (std::int64_t t = 0; t < 50; ++t) {
    for (std::int64_t c = 0; c < 12; ++c) {
      const double angle = static_cast<double>(t) * frequency(100.0, c / 2, 12);
      EXPECT_NEAR(cell(map.panels[0], t, c), c % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-6);
    }
    const draw::Curve& third = curve_of(curves.panels[0], "c = 3");
    EXPECT_NEAR(third.y[static_cast<std::size_t>(t)],
                std::cos(static_cast<double>(t) * frequency(100.0, 1, 12)), 1e-12);
  }
}

TEST(PlotClocks, HandsStandAtPositionTimesFrequency) {
  PlotRequest request = request_of("clocks", {"rope(theta=1000)"});
  request.head_dim = 16;
  request.positions = {0, 3, 500};
  request.pairs = {0, 5, 7};
  request.train_length = 300;
  const draw::Figure figure = plot(request);
  ASSERT_EQ(figure.panels.size(), 3U);
  for (std::size_t n = 0; n < 3; ++n) {
    ASSERT_EQ(figure.panels[n].clocks.size(), 3U);
    for (std::size_t c = 0; c < 3; ++c) {
      const draw::Clock& clock = figure.panels[n].clocks[c];
      const double f = frequency(1000.0, request.pairs[c], 16);
      EXPECT_NEAR(clock.angle, static_cast<double>(request.positions[n]) * f, 1e-9);
      EXPECT_EQ(clock.muted, 2.0 * std::numbers::pi / f > 300.0);
      ASSERT_FALSE(clock.trail.empty());
      EXPECT_NEAR(clock.trail.back(), clock.angle, 1e-9);
    }
  }
}

TEST(PlotInnerProduct, DependsOnDistanceAloneAndIsTheSumOfCosines) {
  PlotRequest request = request_of("inner-product", {"rope(theta=500)"});
  request.head_dim = 32;
  request.length = 40;
  const draw::Figure figure = plot(request);
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 40; ++j) {
      EXPECT_NEAR(cell(figure.panels[0], i, j), mean_cosine(500.0, 32, i - j), 1e-6);
    }
  }
  request.content = plots::Content::kRandom;
  const draw::Figure random = plot(request);
  for (std::int64_t i = 1; i < 40; ++i) {
    for (std::int64_t j = 1; j < 40; ++j) {
      EXPECT_NEAR(cell(random.panels[0], i, j), cell(random.panels[0], i - 1, j - 1), 1e-6);
    }
  }
}

TEST(PlotSimilarity, SinusoidalAndRotatedOnesAreOneCurveAndXposDecaysBelowThem) {
  PlotRequest request =
      request_of("similarity", {"sinusoidal", "rope", "xpos(scale_base=64)", "learned"});
  request.length = 100;
  const draw::Panel panel = plot(request).panels[0];
  const auto& sinusoidal = curve_of(panel, "sinusoidal").y;
  const auto& rope = curve_of(panel, "rope").y;
  const auto& xpos = curve_of(panel, "xpos(scale_base=64)").y;
  for (std::size_t m = 0; m < 100; ++m) {
    EXPECT_NEAR(sinusoidal[m], mean_cosine(10000.0, 64, static_cast<std::int64_t>(m)), 1e-9);
    EXPECT_NEAR(rope[m], sinusoidal[m], 1e-9);
    double decayed = 0.0;  // SUM zeta_p^(m/s) cos(m f_p)
    for (std::int64_t p = 0; p < 32; ++p) {
      const double zeta = (2.0 * static_cast<double>(p) / 64.0 + 0.4) / 1.4;
      const auto d = static_cast<double>(m);
      decayed += std::pow(zeta, d / 64.0) * std::cos(d * frequency(10000.0, p, 64)) / 32.0;
    }
    EXPECT_NEAR(xpos[m], decayed, 1e-9);
  }
  EXPECT_TRUE(curve_of(panel, "rope").low.empty());
  EXPECT_FALSE(curve_of(panel, "learned").low.empty());
}

TEST(PlotDecay, BoundAndRandomQueriesFollowTheirDefinitions) {
  PlotRequest request = request_of("decay");
  request.head_dim = 16;
  request.length = 60;
  request.theta = {50.0, 10000.0};
  request.samples = 4000;
  const draw::Figure figure = plot(request);
  const draw::Curve& bound = curve_of(figure.panels[0], "θ = 50");
  const draw::Curve& same = curve_of(figure.panels[1], "θ = 50");
  const draw::Curve& other = curve_of(figure.panels[1], "independent key");
  for (std::size_t m = 0; m <= 60; ++m) {
    double cos = 0.0;
    double sin = 0.0;
    double mean = 0.0;
    for (std::int64_t p = 0; p < 8; ++p) {
      cos += std::cos(static_cast<double>(m) * frequency(50.0, p, 16));
      sin += std::sin(static_cast<double>(m) * frequency(50.0, p, 16));
      mean += std::hypot(cos, sin) / 8.0;
    }
    EXPECT_NEAR(bound.y[m], mean, 1e-9);
    // E q_p^2 / |q|^2 is the same for every channel, so the mean is that of the cosines.
    EXPECT_NEAR(same.y[m], cos / 8.0, 0.02);
    EXPECT_NEAR(other.y[m], 0.0, 0.02);
    EXPECT_LE(same.low[m], same.y[m]);
    EXPECT_GE(same.high[m], same.y[m]);
  }
  EXPECT_NEAR(same.y[0], 1.0, 1e-12);
}

TEST(PlotWavelengths, LengthsAndRegimesOfASchedule) {
  const std::string llama =
      "rope(schedule=llama3(factor=4, low_freq_factor=1, high_freq_factor=4, "
      "original_max_position_embeddings=2048))";
  const draw::Figure figure = plot(request_of("wavelengths", {"rope", llama}));
  const draw::Curve& plain = curve_of(figure.panels[0], "rope");
  const draw::Panel& regimes = panel_of(figure, "rope, llama3 ×4");
  std::size_t counted = 0;
  for (std::int64_t p = 0; p < 64; ++p) {
    const double wavelength = 2.0 * std::numbers::pi / frequency(10000.0, p, 128);
    EXPECT_NEAR(plain.y[static_cast<std::size_t>(p)], wavelength, wavelength * 1e-12);
    const char* regime = wavelength > 2048 ? "interpolates" : "blends";
    if (wavelength < 512) regime = "extrapolates";
    const draw::Curve& curve = curve_of(regimes, regime);
    const auto at = std::find(curve.x.begin(), curve.x.end(), static_cast<double>(p));
    ASSERT_NE(at, curve.x.end()) << p;
    const double slowed = curve.y[static_cast<std::size_t>(at - curve.x.begin())];
    const bool between = wavelength >= 512 && wavelength <= 2048;
    EXPECT_TRUE(between || std::abs(slowed - (wavelength > 2048 ? 4.0 : 1.0)) < 1e-12) << p;
    ++counted;
  }
  std::size_t dots = 0;
  for (const draw::Curve& curve : regimes.curves) dots += curve.x.size();
  EXPECT_EQ(dots, counted);
}

TEST(PlotExtrapolation, MarksExactlyThePairsWhoseWavelengthExceedsTheTrainingLength) {
  PlotRequest request =
      request_of("extrapolation", {"rope", "rope(schedule=linear(factor=4))", "sinusoidal"});
  request.train_length = 100;
  request.length = 250;  // a column per position
  const draw::Figure figure = plot(request);
  for (std::int64_t p = 0; p < 32; ++p) {
    const double f = frequency(10000.0, p, 64);
    const double wavelength = 2.0 * std::numbers::pi / f;
    bool marked = false;
    for (std::int64_t n = 0; n < 250; ++n) {
      const double value = cell(figure.panels[0], p, n);
      marked = marked || !std::isnan(value);
      EXPECT_TRUE(std::isnan(cell(figure.panels[1], p, n))) << "squeezed into trained angles";
      EXPECT_EQ(std::isnan(value), std::isnan(cell(figure.panels[2], p, n)));
      EXPECT_TRUE(n >= 100 || std::isnan(value));
      // Beyond training, until the hand is back where it started.
      if (wavelength > 100.0 && n >= 100 && static_cast<double>(n) < wavelength) {
        const double nearest = std::min(static_cast<double>(n - 100) * f,
                                        2.0 * std::numbers::pi - static_cast<double>(n) * f);
        EXPECT_NEAR(value, nearest * 180.0 / std::numbers::pi, 1e-4) << p << " " << n;
      }
    }
    EXPECT_EQ(marked, wavelength > 100.0) << p;
    const draw::Curve& first = figure.panels[0].curves[0];
    const std::size_t at = 2 * static_cast<std::size_t>(p);
    EXPECT_TRUE(marked ? first.x[at] == 100.0 : std::isnan(first.y[at])) << p;
  }
  const draw::Panel& turns = panel_of(figure, "largest angle");
  EXPECT_NEAR(curve_of(turns, "trained at 100").y[0], 100.0 / (2.0 * std::numbers::pi), 1e-9);
  EXPECT_NEAR(curve_of(turns, "rope at 250").y[0], 250.0 / (2.0 * std::numbers::pi), 1e-9);
}

}  // namespace
}  // namespace posenc
