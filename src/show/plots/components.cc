#include "plots/components.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "plots/inputs.h"

namespace posenc::plots {
namespace {

using Matrix = std::vector<std::vector<double>>;

double off_diagonal(const Matrix& a) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) sum += a[i][j] * a[i][j];
  }
  return sum;
}

// Rows (or columns, of the transposed matrix) p and q turned by an angle.
void turn_rows(Matrix& a, std::size_t p, std::size_t q, double c, double s) {
  for (std::size_t k = 0; k < a[p].size(); ++k) {
    const double x = a[p][k];
    const double y = a[q][k];
    a[p][k] = c * x - s * y;
    a[q][k] = s * x + c * y;
  }
}
void turn_columns(Matrix& a, std::size_t p, std::size_t q, double c, double s) {
  for (std::vector<double>& row : a) {
    const double x = row[p];
    const double y = row[q];
    row[p] = c * x - s * y;
    row[q] = s * x + c * y;
  }
}

// One rotation that makes a[p][q] zero; `vectors` collects them as rows.
void annihilate(Matrix& a, Matrix& vectors, std::size_t p, std::size_t q) {
  if (a[p][q] == 0.0) return;
  const double ratio = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
  const double t = std::copysign(1.0, ratio) / (std::abs(ratio) + std::hypot(ratio, 1.0));
  const double c = 1.0 / std::hypot(t, 1.0);
  const double s = t * c;
  turn_rows(a, p, q, c, s);
  turn_columns(a, p, q, c, s);
  turn_rows(vectors, p, q, c, s);
}

Points centred(Points points) {
  const std::size_t dim = points.front().size();
  for (std::size_t c = 0; c < dim; ++c) {
    double mean = 0.0;
    for (const auto& point : points) mean += point[c] / static_cast<double>(points.size());
    for (auto& point : points) point[c] -= mean;
  }
  return points;
}

Matrix covariance(const Points& centred_points) {
  const std::size_t dim = centred_points.front().size();
  Matrix result(dim, std::vector<double>(dim, 0.0));
  for (const auto& point : centred_points) {
    for (std::size_t a = 0; a < dim; ++a) {
      for (std::size_t b = 0; b < dim; ++b) result[a][b] += point[a] * point[b];
    }
  }
  for (auto& row : result) {
    for (double& value : row) value /= static_cast<double>(centred_points.size());
  }
  return result;
}

}  // namespace

Eigen eigen_decomposition(std::vector<std::vector<double>> matrix) {
  constexpr int kSweeps = 60;
  constexpr double kTolerance = 1e-24;
  const std::size_t n = matrix.size();
  Matrix vectors(n, std::vector<double>(n, 0.0));
  double trace = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    vectors[i][i] = 1.0;
    trace += std::abs(matrix[i][i]);
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    if (off_diagonal(matrix) <= kTolerance * trace * trace) break;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) annihilate(matrix, vectors, p, q);
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return matrix[a][a] > matrix[b][b]; });
  Eigen result;
  for (const std::size_t k : order) {
    result.values.push_back(matrix[k][k]);
    result.vectors.push_back(vectors[k]);
  }
  return result;
}

Principal principal_components(const Points& points) {
  const Points at_zero = centred(points);
  const Eigen eigen = eigen_decomposition(covariance(at_zero));
  const double total = std::accumulate(eigen.values.begin(), eigen.values.end(), 0.0);
  Principal result;
  for (const double value : eigen.values) {
    result.share.push_back(total > 0.0 ? std::max(0.0, value / total) : 0.0);
  }
  for (const auto& point : at_zero) {
    std::vector<double> scores;
    for (const auto& vector : eigen.vectors) scores.push_back(dot(point, vector));
    result.scores.push_back(std::move(scores));
  }
  return result;
}

}  // namespace posenc::plots
