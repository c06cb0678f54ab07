#include "kernels/fire_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "encodings/score_formulas.h"

namespace posenc {
namespace {

constexpr double kEpsilon = 1e-6;
enum Index : std::size_t { kC, kThresholdScale, kW1, kB1, kW2, kB2 };

// What a row at place n is measured against, and how that moves with the parameters.
struct RowScale {
  double value;       // 1 / (psi(reach) + epsilon)
  double dc;          // with respect to |c|
  double dthreshold;  // with respect to L; 0 where the place is beyond it
};

RowScale row_scale(const Fire& config, const Parameters& parameters, std::int64_t place) {
  const double c = std::abs(parameters[kC][0]);
  const double threshold = std::abs(parameters[kThresholdScale][0]) * config.init_threshold;
  const auto position = static_cast<double>(place);
  const bool threshold_rules = !(threshold <= position);  // as is a NaN
  const double reach = threshold_rules ? threshold : position;
  const double value = 1.0 / (std::log1p(c * reach) + kEpsilon);
  const double slope = -value * value / (1.0 + c * reach);
  return {value, slope * reach, threshold_rules ? slope * c : 0.0};
}

// Where hidden units switch, in order, from -infinity to infinity. Units that never do have no bound,
// nor have those of a network that has diverged: NaN cannot be sorted.
std::vector<double> segment_bounds(const Parameters& parameters) {
  std::vector<double> bounds = {-std::numeric_limits<double>::infinity()};
  for (std::size_t n = 0; n < parameters[kW1].size(); ++n) {
    const double bound = -parameters[kB1][n] / parameters[kW1][n];
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
      lowest_place_(range.lowest_place) {
  const double c = std::abs(parameters[kC][0]);
  for (std::int64_t i = 0; i < range.span(); ++i) {
    const auto distance = static_cast<double>(std::abs(i - zero_));
    psi_.push_back(static_cast<float>(std::log1p(c * distance)));
    dpsi_.push_back(static_cast<float>(distance / (1.0 + c * distance)));
  }
  for (std::int64_t n = lowest_place_; n < range.places + range.slack; ++n) {
    row_scale_.push_back(static_cast<float>(row_scale(config, parameters, n).value));
  }
  const std::vector<double> bounds = segment_bounds(parameters);
  segments_ = bounds.size() - 1;
  bounds_.assign(bounds.begin(), bounds.end());
  for (std::size_t s = 0; s < segments_; ++s) {
    for (std::size_t n = 0; n < width_; ++n) {
      active_.push_back(formulas::fire_unit_active(parameters[kW1][n], parameters[kB1][n],
                                                   bounds[s], bounds[s + 1]));
    }
  }
  for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
    for (std::size_t s = 0; s < segments_; ++s) {
      double slope = 0.0;
      double intercept = parameters[kB2][h];
      for (std::size_t n = 0; n < width_; ++n) {
        const double w2 = parameters[kW2][h * width_ + n];  // times 0, not skipped: it may be NaN
        slope += w2 * (active(s, n) ? parameters[kW1][n] : 0.0);
        intercept += w2 * (active(s, n) ? parameters[kB1][n] : 0.0);
      }
      slopes_.push_back(static_cast<float>(slope));
      intercepts_.push_back(static_cast<float>(intercept));
    }
  }
}

cpu::FireProblem FireTables::problem(std::int64_t head) const {
  cpu::FireProblem p;
  p.segments = segments_;
  p.psi = psi_.data() + zero_;
  p.dpsi = dpsi_.data() + zero_;
  p.row_scale = row_scale_.data() - lowest_place_;
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
    gradient[kB2][static_cast<std::size_t>(head)] += dintercepts[s];
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
  const RowScale scale = row_scale(config, parameters, place);
  const double sign_c = parameters[kC][0] < 0 ? -1.0 : 1.0;
  const double sign_t = parameters[kThresholdScale][0] < 0 ? -1.0 : 1.0;
  gradient[kC][0] += sign_c * (dpsi * scale.value + dscale * scale.dc);
  gradient[kThresholdScale][0] += sign_t * config.init_threshold * dscale * scale.dthreshold;
}

}  // namespace posenc
