#include <algorithm>
#include <cmath>

#include "plots/components.h"
#include "plots/inputs.h"

namespace posenc::plots {
namespace {

using Matrix = std::vector<std::vector<double>>;
using Layout = std::vector<std::array<double, 2>>;

constexpr double kSmallest = 1e-12;
constexpr double kExaggeration = 12.0;

struct Row {
  std::vector<double> p;
  double entropy;
};

// p(j|i) for a precision beta = 1/(2 sigma^2), and their entropy. Distances are measured from the
// nearest, which changes nothing and keeps the largest term at 1.
Row gaussian_row(const std::vector<double>& squared, std::size_t i, double beta) {
  double nearest = HUGE_VAL;
  for (std::size_t j = 0; j < squared.size(); ++j) {
    if (j != i) nearest = std::min(nearest, squared[j]);
  }
  Row row{std::vector<double>(squared.size(), 0.0), 0.0};
  double sum = 0.0;
  for (std::size_t j = 0; j < squared.size(); ++j) {
    if (j != i) sum += row.p[j] = std::exp(-beta * (squared[j] - nearest));
  }
  for (double& p : row.p) {
    p /= sum;
    if (p > 0.0) row.entropy -= p * std::log(p);
  }
  return row;
}

// (p(j|i) + p(i|j)) / (2n)
Matrix joint_probabilities(const Points& points, double perplexity) {
  const Matrix squared = squared_distances(points);
  const std::size_t n = points.size();
  Matrix joint(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    const std::vector<double> row = neighbour_probabilities(squared[i], i, perplexity);
    for (std::size_t j = 0; j < n; ++j) {
      const double half = row[j] / (2.0 * static_cast<double>(n));
      joint[i][j] += half;
      joint[j][i] += half;
    }
  }
  return joint;
}

double closeness(const std::array<double, 2>& a, const std::array<double, 2>& b) {
  const double x = a[0] - b[0];
  const double y = a[1] - b[1];
  return 1.0 / (1.0 + x * x + y * y);
}

// dC/dy_i = 4 SUM_j (p_ij - q_ij) (y_i - y_j) / (1 + |y_i - y_j|^2)
Layout gradient(const Matrix& joint, const Layout& y, double exaggeration) {
  const std::size_t n = y.size();
  double total = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) total += 2.0 * closeness(y[i], y[j]);
  }
  Layout result(n, {0.0, 0.0});
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double near = closeness(y[i], y[j]);
      const double pull = exaggeration * joint[i][j] - std::max(near / total, kSmallest);
      for (std::size_t c = 0; c < 2; ++c) {
        const double force = 4.0 * pull * near * (y[i][c] - y[j][c]);
        result[i][c] += force;
        result[j][c] -= force;
      }
    }
  }
  return result;
}

// Momentum, and gains that grow while a coordinate keeps its direction.
class Descent {
 public:
  explicit Descent(std::size_t n) : speed_(n, {0.0, 0.0}), gain_(n, {1.0, 1.0}) {}

  void step(Layout& y, const Layout& slope, double rate, double momentum) {
    constexpr double kLeastGain = 0.01;
    for (std::size_t i = 0; i < y.size(); ++i) {
      for (std::size_t c = 0; c < 2; ++c) {
        const bool turned = (slope[i][c] > 0.0) == (speed_[i][c] > 0.0);
        double& gain = gain_[i][c];
        gain = std::max(kLeastGain, turned ? gain * 0.8 : gain + 0.2);
        speed_[i][c] = momentum * speed_[i][c] - rate * gain * slope[i][c];
        y[i][c] += speed_[i][c];
      }
    }
  }

 private:
  Layout speed_;
  Layout gain_;
};

void centre(Layout& y) {
  for (std::size_t c = 0; c < 2; ++c) {
    double mean = 0.0;
    for (const auto& point : y) mean += point[c] / static_cast<double>(y.size());
    for (auto& point : y) point[c] -= mean;
  }
}

}  // namespace

std::vector<std::vector<double>> squared_distances(const Points& points) {
  const std::size_t n = points.size();
  Matrix squared(n, std::vector<double>(n, 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      double sum = 0.0;
      for (std::size_t c = 0; c < points[i].size(); ++c) {
        const double difference = points[i][c] - points[j][c];
        sum += difference * difference;
      }
      squared[i][j] = squared[j][i] = sum;
    }
  }
  return squared;
}

std::vector<double> neighbour_probabilities(const std::vector<double>& squared, std::size_t i,
                                            double perplexity) {
  constexpr int kSteps = 200;
  constexpr double kClose = 1e-9;
  const double wanted = std::log(perplexity);
  double low = 0.0;
  double high = HUGE_VAL;
  double beta = 1.0;
  Row row = gaussian_row(squared, i, beta);
  for (int step = 0; step < kSteps && std::abs(row.entropy - wanted) > kClose; ++step) {
    (row.entropy > wanted ? low : high) = beta;
    beta = std::isinf(high) ? beta * 2.0 : (low + high) / 2.0;
    row = gaussian_row(squared, i, beta);
  }
  return row.p;
}

namespace {

// The two largest principal components, made small, and a little noise: where each point begins is then a fact of the
// points. From noise alone the last bits of a machine's arithmetic decide how a curve folds.
Layout first_layout(const Points& points, std::uint64_t seed) {
  constexpr double kSize = 1e-4;
  constexpr double kNoise = 1e-6;
  const Points scores = principal_components(points).scores;
  double variance = 0.0;
  for (const auto& score : scores) {
    variance += score[0] * score[0] / static_cast<double>(scores.size());
  }
  const double scale = variance > 0.0 ? kSize / std::sqrt(variance) : 0.0;
  Rng rng(seed);
  Layout y(points.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    for (std::size_t c = 0; c < 2; ++c) {
      const double component = c < scores[i].size() ? scores[i][c] : 0.0;
      y[i][c] = scale * component + kNoise * rng.normal();
    }
  }
  return y;
}

}  // namespace

std::vector<std::array<double, 2>> tsne(const Points& points, const TsneOptions& options) {
  constexpr double kLeastRate = 10.0;
  const std::size_t n = points.size();
  const Matrix joint = joint_probabilities(points, options.perplexity);
  Layout y = first_layout(points, options.seed);
  const std::int64_t early = std::min<std::int64_t>(250, options.iterations / 3);
  const double rate = std::max(kLeastRate, static_cast<double>(n) / kExaggeration);
  Descent descent(n);
  for (std::int64_t step = 0; step < options.iterations; ++step) {
    const bool begins = step < early;
    const Layout slope = gradient(joint, y, begins ? kExaggeration : 1.0);
    descent.step(y, slope, rate, begins ? 0.5 : 0.8);
    centre(y);
  }
  return y;
}

}  // namespace posenc::plots
