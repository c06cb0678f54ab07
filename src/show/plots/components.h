// Two coordinates for points of many: principal components, and t-SNE.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace posenc::plots {

using Points = std::vector<std::vector<double>>;  // [n][d]

struct Eigen {
  std::vector<double> values;                // largest first
  std::vector<std::vector<double>> vectors;  // [k] is the unit vector of values[k]
};
// Of a symmetric matrix, by cyclic Jacobi rotations.
Eigen eigen_decomposition(std::vector<std::vector<double>> matrix);

struct Principal {
  std::vector<double> share;  // of the variance, per component, largest first; they add up to 1
  Points scores;              // [n][d]: the centred points along the components
};
Principal principal_components(const Points& points);

struct TsneOptions {
  double perplexity = 12.0;
  std::int64_t iterations = 600;
  std::uint64_t seed = 0;
};
// Exact t-SNE (van der Maaten and Hinton 2008) from the principal components: O(n^2) a step, the same for the same seed.
std::vector<std::array<double, 2>> tsne(const Points& points, const TsneOptions& options);

// Squares of the distances of all pairs, [n][n].
std::vector<std::vector<double>> squared_distances(const Points& points);
// Row of conditional probabilities p(j|i) whose entropy is ln(perplexity); p(i|i) = 0.
std::vector<double> neighbour_probabilities(const std::vector<double>& squared, std::size_t i,
                                            double perplexity);

}  // namespace posenc::plots
