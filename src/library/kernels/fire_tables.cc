#include "kernels/fire_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/fire_segments.h"

namespace posenc {
namespace {

enum Index : std::size_t { kC, kThresholdScale, kW1, kB1, kW2, kB2 };
using formulas::Dual;

Dual<double> row_scale(const Fire& config, const Parameters& parameters, std::int64_t place,
                       double by_c) {
  return fire_row_scale(config.init_threshold, parameters[kC][0], parameters[kThresholdScale][0],
                        place, by_c);
}

FireWeights weights_of(const Parameters& parameters) {
  return {parameters[kW1].data(), parameters[kB1].data(), parameters[kW2].data(),
          parameters[kB2].data(), std::ssize(parameters[kW1])};
}

// Where hidden units switch, in order, from -infinity to infinity. Units that never do have no bound,
// nor have those of a network that has diverged: NaN cannot be sorted.
std::vector<double> segment_bounds(const Parameters& parameters) {
  std::vector<double> bounds = {-std::numeric_limits<double>::infinity()};
  const FireWeights network = weights_of(parameters);
  for (std::int64_t n = 0; n < network.width; ++n) {
    const double bound = network.switch_of(n);
    if (std::isfinite(bound)) bounds.push_back(bound);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.push_back(std::numeric_limits<double>::infinity());
  return bounds;
}

}  // namespace

FireTables::FireTables(const Fire& config, const Parameters& parameters, std::int64_t heads,
                       const DistanceRange& range)
    : width_(static_cast<std::size_t>(config.width)),
      zero_(range.before),
      lowest_place_(range.lowest_place),
      key_place_(range.key_place) {
  psi_.reserve(static_cast<std::size_t>(range.span()));
  dpsi_.reserve(psi_.capacity());
  for (std::int64_t i = 0; i < range.span(); ++i) {
    const Dual<double> psi = fire_psi(parameters[kC][0], i - zero_);
    psi_.push_back(static_cast<float>(psi.value));
    dpsi_.push_back(static_cast<float>(psi.slope));
  }
  const std::int64_t end = range.end_place.value_or(range.places) + range.slack;
  row_scale_.reserve(static_cast<std::size_t>(end - lowest_place_));
  for (std::int64_t n = lowest_place_; n < end; ++n) {
    row_scale_.push_back(static_cast<float>(row_scale(config, parameters, n, 1.0).value));
  }
  const std::vector<double> bounds = segment_bounds(parameters);
  segments_ = bounds.size() - 1;
  bounds_.assign(bounds.begin(), bounds.end());
  const FireWeights network = weights_of(parameters);
  for (std::size_t s = 0; s < segments_; ++s) {
    for (std::int64_t n = 0; n < network.width; ++n) {
      active_.push_back(network.active(n, bounds[s], bounds[s + 1]));
    }
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::size_t s = 0; s < segments_; ++s) {
      const FireLine line = fire_line(network, h, bounds[s], bounds[s + 1]);
      slopes_.push_back(static_cast<float>(line.slope));
      intercepts_.push_back(static_cast<float>(line.intercept));
    }
  }
}

cpu::FireProblem FireTables::problem(std::int64_t head) const {
  cpu::FireProblem p;
  p.segments = segments_;
  p.psi = psi_.data() + zero_;
  p.dpsi = dpsi_.data() + zero_;
  p.row_scale = row_scale_.data() + key_place_ - lowest_place_;
  p.bounds = bounds_.data();
  p.slopes = slopes_.data() + static_cast<std::size_t>(head) * segments_;
  p.intercepts = intercepts_.data() + static_cast<std::size_t>(head) * segments_;
  return p;
}

void FireTables::add_network_gradient(const Parameters& parameters, std::int64_t head,
                                      const double* dslopes, const double* dintercepts,
                                      Parameters& gradient) const {
  const std::size_t row = static_cast<std::size_t>(head) * width_;
  for (std::size_t s = 0; s < segments_; ++s) {
    gradient[kB2][head] += dintercepts[s];
    for (std::size_t n = 0; n < width_; ++n) {
      if (!active(s, n)) {
        gradient[kW2][row + n] += 0.0 * dintercepts[s];
        continue;
      }
      gradient[kW2][row + n] +=
          dslopes[s] * parameters[kW1][n] + dintercepts[s] * parameters[kB1][n];
      gradient[kW1][n] += dslopes[s] * parameters[kW2][row + n];
      gradient[kB1][n] += dintercepts[s] * parameters[kW2][row + n];
    }
  }
}

void FireTables::add_row_gradient(const Fire& config, const Parameters& parameters,
                                  std::int64_t place, double dpsi, double dscale,
                                  Parameters& gradient) const {
  const Dual<double> by_c = row_scale(config, parameters, place, 1.0);
  gradient[kC][0] += dpsi * by_c.value + dscale * by_c.slope;
  gradient[kThresholdScale][0] += dscale * row_scale(config, parameters, place, 0.0).slope;
}

}  // namespace posenc
