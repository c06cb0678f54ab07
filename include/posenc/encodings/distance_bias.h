// Biases that depend on the distance alone (site 3): B(h, i, j) = value(x, i - j), where x holds the parameter values
// of head h. The config defines the formula once for all backends: the float64 reference, the tables of the CPU and
// CUDA kernels, and torch tensors. Derivatives come from dual numbers (dual.h).
//
//   static constexpr int kReads = 2;   x[n] is read from parameter n, here one value per head
//   template <class Real, class Distance>
//   POSENC_HOST_DEVICE Real value(const std::array<Real, kReads>& x, const Distance& d) const;
//
// If the parameter is a table with several entries per head, the config also has:
//
//   static constexpr bool kHeadsLast;              [entries, heads], else [heads, entries]
//   std::int64_t entries() const;
//   std::int64_t entry(std::int64_t d) const;      the index of the entry for distance d
//   std::int64_t reach() const;                    distances beyond +-reach() share an entry
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

// Strides of a parameter between entries and between heads.
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

// The index in a parameter that the formula reads for a head and a distance.
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

// Adds dbias times the derivative with respect to each parameter.
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

// SPDX-License-Identifier: MIT
