// The formulas of biases by distance, one each, for every backend: the reference and the tables of the CPU
// (float64), the tables of CUDA, and tensors. Derivatives follow from them (dual.h).
//
// A bias B(h, d) at the distance d = i - j reads kReads parameters: number n of them from parameter n, either one
// value per head, or the entry(d) of a table per head. With these x the formula is formula(x, d).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "encodings/dual.h"
#include "posenc/encodings/encoding.h"

namespace posenc::formulas {

// A distance bias without its formula does not compile, on any backend.
template <class E>
struct DistanceFormula;

// The formula reads tables of several entries per head.
template <class E>
concept ReadsEntries = requires(DistanceFormula<E> formula) {
  formula.entry(std::int64_t{0});
};

template <>
struct DistanceFormula<Alibi> {
  static constexpr int kReads = 1;
  Alibi config;

  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real operator()(const std::array<Real, kReads>& x, const Distance& d) const {
    return -x[0] * (config.bidirectional ? magnitude(d) : at_least(d, 0.0));
  }
};

template <>
struct DistanceFormula<Kerple> {
  static constexpr int kReads = 2;
  static constexpr double kSmallest = 0.01;
  static constexpr double kLargestPower = 2.0;
  Kerple config;

  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real operator()(const std::array<Real, kReads>& x, const Distance& d) const {
    using std::log1p;
    using std::pow;
    const Distance apart = magnitude(d);
    const Real p = at_least(x[0], kSmallest);
    const Real a = at_least(x[1], kSmallest);
    if (config.kernel == Kerple::Kernel::kLog) return -p * log1p(a * apart);
    // Distances are whole numbers: the last factor is 0 at distance 0 and else 1.
    return -a * pow(at_least(apart, 1.0), at_most(p, kLargestPower)) * at_most(apart, 1.0);
  }
};

// `heads_last`: the table is [entries, heads], else [heads, entries]. Beyond `reach` in either direction all
// distances read the same entry.
template <>
struct DistanceFormula<T5> {
  static constexpr int kReads = 1;
  static constexpr bool kHeadsLast = true;
  T5 config;

  [[nodiscard]] std::int64_t entries() const { return config.num_buckets; }
  [[nodiscard]] std::int64_t reach() const { return config.max_distance; }
  [[nodiscard]] std::int64_t entry(std::int64_t d) const { return t5_bucket(config, -d); }

  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real operator()(const std::array<Real, kReads>& x,
                                     const Distance& /*d*/) const {
    return x[0];
  }
};

template <>
struct DistanceFormula<Relative> {
  static constexpr int kReads = 1;
  static constexpr bool kHeadsLast = false;
  Relative config;

  [[nodiscard]] std::int64_t lowest() const {
    return config.bidirectional ? -config.max_distance : 0;
  }
  [[nodiscard]] std::int64_t entries() const { return config.max_distance - lowest() + 1; }
  [[nodiscard]] std::int64_t reach() const { return config.max_distance; }
  [[nodiscard]] std::int64_t entry(std::int64_t d) const {
    return std::clamp(d, lowest(), config.max_distance) - lowest();
  }

  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real operator()(const std::array<Real, kReads>& x,
                                     const Distance& /*d*/) const {
    return x[0];
  }
};

// How far apart two entries, and two heads, of a parameter are.
struct ParameterStrides {
  std::int64_t entry = 0;
  std::int64_t head = 1;
};
template <DistanceBias E>
ParameterStrides strides_of(const DistanceFormula<E>& formula, std::int64_t heads) {
  if constexpr (!ReadsEntries<E>) {
    return {};
  } else {
    return formula.kHeadsLast ? ParameterStrides{heads, 1} : ParameterStrides{1, formula.entries()};
  }
}

}  // namespace posenc::formulas
