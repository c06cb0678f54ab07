// Biases of the distance alone (site 3): B(h, i, j) = value(x, i - j), where x is what the formula reads of its
// parameters. The config has the formula, once for all backends: the reference and the tables of the CPU in
// float64, the tables of CUDA, and tensors. Its derivative follows from it (dual.h).
//
//   static constexpr int kReads = 2;   number n is read from parameter n, here a value per head
//   template <class Real, class Distance>
//   POSENC_HOST_DEVICE Real value(const std::array<Real, kReads>& x, const Distance& d) const;
//
// A table of several entries per head also has:
//
//   static constexpr bool kHeadsLast;              [entries, heads], else [heads, entries]
//   std::int64_t entries() const;
//   std::int64_t entry(std::int64_t d) const;      which of them distance d reads
//   std::int64_t reach() const;                    beyond it in either direction, all read the same
#pragma once

#include <array>
#include <cstdint>

#include "posenc/encodings/common.h"
#include "posenc/encodings/dual.h"

namespace posenc {

template <class E>
concept DistanceBias = requires {
  E::kReads;
};
template <class E>
concept ReadsEntries = DistanceBias<E> && requires(E e) {
  e.entry(std::int64_t{0});
};

// How far apart two entries, and two heads, of a parameter are.
struct ParameterStrides {
  std::int64_t entry = 0;
  std::int64_t head = 1;
};
template <DistanceBias E>
ParameterStrides parameter_strides(const E& config, std::int64_t heads) {
  if constexpr (!ReadsEntries<E>) {
    return {};
  } else {
    return E::kHeadsLast ? ParameterStrides{heads, 1} : ParameterStrides{1, config.entries()};
  }
}

// Where in a parameter the formula reads, for a head and a distance.
template <DistanceBias E>
std::size_t place_of(const E& config, const Parameters& parameters, std::int64_t head,
                     std::int64_t distance) {
  std::int64_t entry = 0;
  ParameterStrides strides;
  if constexpr (ReadsEntries<E>) {
    entry = config.entry(distance);
    const auto size = std::ssize(parameters[0]);
    strides = parameter_strides(config, size / config.entries());
  }
  return static_cast<std::size_t>(entry * strides.entry + head * strides.head);
}

template <DistanceBias E>
double bias(const E& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j) {
  const std::size_t place = place_of(config, parameters, head, i - j);
  std::array<double, E::kReads> x;
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = parameters[n][place];
  return config.value(x, static_cast<double>(i - j));
}

// Adds dbias times the derivative by each parameter.
template <DistanceBias E>
void add_bias_gradient(const E& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient) {
  const std::size_t place = place_of(config, parameters, head, i - j);
  std::array<formulas::Dual<double>, E::kReads> x;
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = {parameters[n][place], 0.0};
  for (std::size_t n = 0; n < x.size(); ++n) {
    x[n].slope = 1.0;
    gradient[n][place] += dbias * config.value(x, static_cast<double>(i - j)).slope;
    x[n].slope = 0.0;
  }
}

}  // namespace posenc
