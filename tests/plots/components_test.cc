// PCA and t-SNE against what they promise.
#include "plots/components.h"

#include <cmath>
#include <numeric>

#include "plots/figures.h"
#include "plots/inputs.h"
#include "posenc/core/rng.h"

namespace posenc {
namespace {

using plots::Points;

Points random_points(std::size_t n, std::size_t dim, std::uint64_t seed) {
  Rng rng(seed);
  Points points(n, std::vector<double>(dim));
  for (auto& point : points) {
    for (std::size_t c = 0; c < dim; ++c)
      point[c] = rng.normal() * static_cast<double>(c + 1) + 3.0;
  }
  return points;
}

TEST(Components, EigenvectorsAreOrthonormalAndRebuildTheMatrix) {
  constexpr std::size_t kSize = 9;
  Rng rng(4);
  std::vector<std::vector<double>> matrix(kSize, std::vector<double>(kSize));
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j <= i; ++j) matrix[i][j] = matrix[j][i] = rng.normal();
  }
  const plots::Eigen eigen = plots::eigen_decomposition(matrix);
  EXPECT_TRUE(std::is_sorted(eigen.values.rbegin(), eigen.values.rend()));
  for (std::size_t i = 0; i < kSize; ++i) {
    for (std::size_t j = 0; j < kSize; ++j) {
      EXPECT_NEAR(plots::dot(eigen.vectors[i], eigen.vectors[j]), i == j ? 1.0 : 0.0, 1e-12);
      double rebuilt = 0.0;
      for (std::size_t k = 0; k < kSize; ++k) {
        rebuilt += eigen.values[k] * eigen.vectors[k][i] * eigen.vectors[k][j];
      }
      EXPECT_NEAR(rebuilt, matrix[i][j], 1e-11);
    }
  }
}

TEST(Components, PcaKeepsDistancesAndOrdersTheVariance) {
  const Points points = random_points(40, 6, 1);
  const plots::Principal principal = plots::principal_components(points);
  EXPECT_NEAR(std::accumulate(principal.share.begin(), principal.share.end(), 0.0), 1.0, 1e-12);
  EXPECT_TRUE(std::is_sorted(principal.share.rbegin(), principal.share.rend()));
  const auto before = plots::squared_distances(points);
  const auto after = plots::squared_distances(principal.scores);
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 40; ++j) EXPECT_NEAR(before[i][j], after[i][j], 1e-9);
  }
  std::vector<double> variance(6, 0.0);
  for (std::size_t a = 0; a < 6; ++a) {
    for (std::size_t b = 0; b < 6; ++b) {
      double sum = 0.0;
      for (const auto& s : principal.scores) sum += s[a] * s[b];
      if (a == b) {
        variance[a] = sum;
      } else {
        EXPECT_NEAR(sum, 0.0, 1e-8) << "components do not correlate";
      }
    }
  }
  const double total = std::accumulate(variance.begin(), variance.end(), 0.0);
  for (std::size_t a = 0; a < 6; ++a) EXPECT_NEAR(variance[a] / total, principal.share[a], 1e-12);
}

TEST(Components, NeighboursHaveThePerplexityAskedFor) {
  const auto squared = plots::squared_distances(random_points(50, 4, 2));
  for (const double perplexity : {2.0, 10.0, 16.0}) {
    for (std::size_t i = 0; i < 50; ++i) {
      const auto p = plots::neighbour_probabilities(squared[i], i, perplexity);
      double entropy = 0.0;
      double sum = 0.0;
      for (const double x : p) {
        sum += x;
        if (x > 0.0) entropy -= x * std::log(x);
      }
      EXPECT_NEAR(sum, 1.0, 1e-12);
      EXPECT_NEAR(std::exp(entropy), perplexity, 1e-6);
      EXPECT_EQ(p[i], 0.0);
    }
  }
}

TEST(Components, TsneSeparatesClustersAndRepeatsItself) {
  constexpr std::size_t kEach = 20;
  Points points = random_points(3 * kEach, 5, 3);
  for (std::size_t n = 0; n < points.size(); ++n) points[n][n / kEach] += 100.0;
  const plots::TsneOptions options{.perplexity = 8, .iterations = 400, .seed = 5};
  const auto y = plots::tsne(points, options);
  EXPECT_EQ(y, plots::tsne(points, options));
  EXPECT_NE(y, plots::tsne(points, {.perplexity = 8, .iterations = 400, .seed = 6}));
  double within = 0.0;
  double between = HUGE_VAL;
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double distance = std::hypot(y[i][0] - y[j][0], y[i][1] - y[j][1]);
      (i / kEach == j / kEach) ? within = std::max(within, distance)
                               : between = std::min(between, distance);
    }
  }
  EXPECT_LT(within, between) << "every cluster is smaller than the gaps between them";
}

TEST(PlotPca, AxesNameTheVarianceAndTheCurvesHoldEveryPosition) {
  plots::PlotRequest request = testing::request_of("pca", {"sinusoidal"});
  request.length = 33;
  const draw::Figure figure = plots::plot(request);
  const draw::Curve& bars = testing::panel_of(figure, "variance by component").curves[0];
  EXPECT_NE(figure.panels[0].x.label.find(" % of the variance"), std::string::npos);
  EXPECT_GT(bars.y[0], bars.y[1]);
  std::size_t points = 0;
  for (const draw::Curve& curve : figure.panels[0].curves) points += curve.x.size();
  EXPECT_EQ(points, 33U + 3U);  // each quarter but the last reaches to the next
}

TEST(PlotTsne, NeighbouringPositionsStayNeighbours) {
  plots::PlotRequest request = testing::request_of("tsne", {"sinusoidal"});
  request.length = 60;
  const draw::Figure figure = plots::plot(request);
  std::vector<std::array<double, 2>> y;
  for (const draw::Curve& curve : figure.panels[0].curves) {
    for (std::size_t n = y.empty() ? 0 : 1; n < curve.x.size(); ++n) {
      y.push_back({curve.x[n], curve.y[n]});
    }
  }
  ASSERT_EQ(y.size(), 60U);
  for (std::size_t t = 1; t + 1 < y.size(); ++t) {
    double step = std::hypot(y[t][0] - y[t - 1][0], y[t][1] - y[t - 1][1]);
    std::size_t closer = 0;
    for (const auto& other : y) {
      closer += std::hypot(y[t][0] - other[0], y[t][1] - other[1]) < step ? 1 : 0;
    }
    EXPECT_LE(closer, 4U) << t;  // itself, and a neighbour or two on the other side
  }
}

}  // namespace
}  // namespace posenc
