// Vectors in row-major tensors. Plain loops in index order, so sums are the same on every machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace posenc::ref {

// The index-th vector of `width` entries.
template <class T>
std::span<T> vector_at(std::span<T> tensor, std::int64_t index, std::int64_t width) {
  return tensor.subspan(index * width, static_cast<std::size_t>(width));
}

inline double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0.0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

inline bool is_zero(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return value == 0.0; });
}

inline bool is_finite(std::span<const double> x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return std::isfinite(value); });
}

inline void add_scaled(double factor, std::span<const double> x, std::span<double> sum) {
  for (std::size_t c = 0; c < x.size(); ++c) sum[c] += factor * x[c];
}

}  // namespace posenc::ref
