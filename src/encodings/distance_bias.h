// A distance bias and its gradient in float64, from its formula.
#pragma once

#include "encodings/distance_formulas.h"

namespace posenc {

// Where in a parameter the formula reads, for a head and a distance.
template <DistanceBias E>
std::size_t place_of(const formulas::DistanceFormula<E>& formula, const Parameters& parameters,
                     std::int64_t head, std::int64_t distance) {
  if constexpr (!formulas::ReadsEntries<E>) {
    return static_cast<std::size_t>(head);
  } else {
    const auto size = static_cast<std::int64_t>(parameters[0].size());
    const auto strides = strides_of(formula, size / formula.entries());
    return static_cast<std::size_t>(formula.entry(distance) * strides.entry + head * strides.head);
  }
}

template <DistanceBias E>
double distance_bias(const E& config, const Parameters& parameters, std::int64_t head,
                     std::int64_t distance) {
  using Formula = formulas::DistanceFormula<E>;
  const Formula formula{config};
  const std::size_t place = place_of(formula, parameters, head, distance);
  std::array<double, Formula::kReads> x;
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = parameters[n][place];
  return formula(x, static_cast<double>(distance));
}

template <DistanceBias E>
void add_distance_gradient(const E& config, const Parameters& parameters, std::int64_t head,
                           std::int64_t distance, double dbias, Parameters& gradient) {
  using Formula = formulas::DistanceFormula<E>;
  const Formula formula{config};
  const std::size_t place = place_of(formula, parameters, head, distance);
  std::array<formulas::Dual<double>, Formula::kReads> x;
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = {parameters[n][place], 0.0};
  for (std::size_t n = 0; n < x.size(); ++n) {
    x[n].slope = 1.0;
    gradient[n][place] += dbias * formula(x, static_cast<double>(distance)).slope;
    x[n].slope = 0.0;
  }
}

}  // namespace posenc
