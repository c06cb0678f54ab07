// Biases in figures: slopes, buckets and kernels against their formulas and golden values.
#include <cmath>

#include "plots/figures.h"
#include "posenc/core/rng.h"
#include "support/golden.h"

namespace posenc {
namespace {

using plots::plot;
using plots::PlotRequest;
using testing::cell;
using testing::curve_of;
using testing::panel_of;
using testing::request_of;

TEST(PlotBias, AlibiIsMinusSlopeTimesDistanceInMapAndCurve) {
  PlotRequest request = request_of("bias", {"alibi"});
  request.heads = 8;
  request.head = 2;
  request.length = 30;
  const draw::Figure map = plot(request);
  for (std::int64_t i = 0; i < 30; ++i) {
    for (std::int64_t j = 0; j < 30; ++j) {
      const double value = cell(map.panels[0], i, j);
      if (j > i) {
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(value, -0.125 * static_cast<double>(i - j));  // 2^-3
      }
    }
  }
  const draw::Figure curves = plot(request_of("bias-curves", {"alibi"}));
  const draw::Curve& curve = curve_of(curves.panels[0], "head 7");
  for (std::size_t m = 0; m < curve.x.size(); ++m) EXPECT_EQ(curve.y[m], -curve.x[m] / 256.0);
}

TEST(PlotBias, BothDirectionsWhereNothingIsHidden) {
  PlotRequest request = request_of("bias-curves", {"alibi(bidirectional=true)"});
  request.causal = false;
  request.length = 20;
  const draw::Figure figure = plot(request);
  const draw::Curve& curve = curve_of(figure.panels[0], "head 0");
  ASSERT_EQ(curve.x.size(), 39U);
  for (std::size_t m = 0; m < 39; ++m) {
    EXPECT_EQ(curve.x[m], static_cast<double>(m) - 19.0);
    EXPECT_EQ(curve.y[m], -0.5 * std::abs(curve.x[m]));
  }
}

TEST(PlotBias, BucketsOfT5AreThoseOfTransformers) {
  const testing::Json golden = testing::load_golden("bias_hf.json").at("t5");
  const auto relative = golden.at("rel").get<std::vector<std::int64_t>>();
  const auto want = golden.at("causal_32_128").get<std::vector<std::int64_t>>();
  PlotRequest request = request_of("bias-curves", {"t5"});
  request.length = 601;
  const draw::Figure figure = plot(request);
  const draw::Curve& buckets = panel_of(figure, "buckets of t5").curves[0];
  const draw::Curve& bias = curve_of(panel_of(figure, "t5"), "head 0");
  std::vector<double> entry(32, NAN);
  for (std::size_t k = 0; k < relative.size(); ++k) {
    if (relative[k] > 0) continue;
    const auto m = static_cast<std::size_t>(-relative[k]);
    EXPECT_EQ(buckets.y[m], static_cast<double>(want[k])) << m;
    double& shared = entry[static_cast<std::size_t>(want[k])];
    if (std::isnan(shared)) shared = bias.y[m];
    EXPECT_EQ(bias.y[m], shared) << "distances of one bucket share an entry";
  }
}

// The parameters are drawn here as the library documents: p, then a, uniform, from the seed.
TEST(PlotBias, KerpleIsItsFormula) {
  PlotRequest request = request_of("bias-curves", {"kerple"});
  request.heads = 3;
  request.seed = 7;
  const draw::Figure figure = plot(request);
  Rng rng(7, 0);
  std::vector<double> p(3);
  std::vector<double> a(3);
  for (double& x : p) x = rng.uniform(0.01, 2.0);
  for (double& x : a) x = rng.uniform(0.01, 1.0);
  for (std::size_t h = 0; h < 3; ++h) {
    const draw::Curve& curve = curve_of(figure.panels[0], "head " + std::to_string(h));
    for (std::size_t m = 0; m < curve.x.size(); ++m) {
      EXPECT_NEAR(curve.y[m], -p[h] * std::log(1.0 + a[h] * curve.x[m]), 1e-9);
    }
  }
}

TEST(PlotBias, FireHasACurvePerQueryThatStretchesWithIt) {
  PlotRequest request = request_of("bias-curves", {"fire(init_threshold=4, init_c=1000000)"});
  request.positions = {50, 100};
  const draw::Panel panel = plot(request).panels[0];
  const draw::Curve& near = curve_of(panel, "query at 50");
  const draw::Curve& far = curve_of(panel, "query at 100");
  EXPECT_EQ(near.x.back(), 50.0);
  EXPECT_EQ(far.x.back(), 100.0);
  // At its first token every query reads the network at psi(i)/psi(i) = 1, and at itself at 0.
  EXPECT_NEAR(near.y.back(), far.y.back(), 1e-6);
  EXPECT_EQ(near.y.front(), far.y.front());
  EXPECT_NE(near.y[25], far.y[25]);
}

TEST(PlotBias, FiresCurvesAreApartByDefault) {
  for (const char* spec : {"fire", "fire(init_threshold=32)", "fire + alibi"}) {
    const draw::Panel panel = plot(request_of("bias-curves", {spec})).panels[0];
    ASSERT_EQ(panel.curves.size(), 3U) << spec;
    const draw::Range shown = draw::y_range(panel);
    for (const std::size_t c : {0U, 1U}) {
      const draw::Curve& near = panel.curves[c];
      const draw::Curve& far = panel.curves[c + 1];
      const std::size_t m = near.y.size() / 2;
      EXPECT_EQ(near.x[m], far.x[m]);
      const double apart = std::abs(near.y[m] - far.y[m]) / (shown.high - shown.low);
      EXPECT_GT(apart, std::string(spec).find('+') == std::string::npos ? 0.03 : 1e-6) << spec;
    }
  }
}

TEST(PlotBias, SumsAddUpAndTablesThatStartAtZeroAreDrawnAndSaidToBe) {
  PlotRequest request =
      request_of("bias", {"alibi", "relative(max_distance=8)", "alibi + relative(max_distance=8)"});
  request.length = 12;
  request.table_std = 0.0;
  const draw::Figure zero = plot(request);
  EXPECT_EQ(zero.caption.find("Starting at zero"), std::string::npos);
  EXPECT_EQ(cell(zero.panels[1], 9, 4), 0.0);
  EXPECT_EQ(cell(zero.panels[2], 9, 4), cell(zero.panels[0], 9, 4));
  request.table_std = 2.0;
  const draw::Figure drawn = plot(request);
  EXPECT_NE(drawn.caption.find("relative.weight"), std::string::npos) << drawn.caption;
  EXPECT_NE(cell(drawn.panels[1], 9, 4), 0.0);
  EXPECT_EQ(cell(drawn.panels[1], 9, 0), cell(drawn.panels[1], 10, 0)) << "clipped at 8";
}

}  // namespace
}  // namespace posenc
