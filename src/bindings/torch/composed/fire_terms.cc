#include "torch/composed/fire_terms.h"

#include <limits>

#include "encodings/score_formulas.h"

namespace posenc::ops {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
enum Index : std::size_t { kC, kThresholdScale, kW1, kB1, kW2, kB2 };

at::Tensor floats(const at::Tensor& x) { return x.to(at::kFloat).contiguous(); }

// Where hidden units switch, in order, from -infinity to infinity. Units that never do, and those of a
// network that has diverged, come last.
at::Tensor segment_bounds(const at::Tensor& w1, const at::Tensor& b1) {
  const at::Tensor switches = -b1 / w1;
  const at::Tensor known = switches.masked_fill(switches.isfinite().logical_not(), kInfinity);
  const at::Tensor end = at::full({1}, kInfinity, known.options());
  return at::cat({-end, std::get<0>(known.sort()), end});
}

at::Tensor sign_of(const at::Tensor& x) { return 1.0 - 2.0 * (x < 0); }

}  // namespace

FireTerms::FireTerms(const Fire& config, const std::vector<at::Tensor>& parameters,
                     const FireRange& range)
    : init_threshold_(config.init_threshold) {
  for (const at::Tensor& p : parameters) parameters_.push_back(p.to(at::kDouble));
  c_ = parameters_[kC].abs();
  threshold_ = parameters_[kThresholdScale].abs() * init_threshold_;
  const auto doubles = c_.options();
  const BiasTable& d = range.distances;
  const at::Tensor apart = at::arange(-d.before, d.span - d.before, doubles).abs();
  psi = floats((c_ * apart).log1p());
  dpsi = floats(apart / (c_ * apart + 1.0));
  row_scale = floats(
      rows_at(at::arange(range.lowest_place, range.lowest_place + range.places, doubles)).scale);
  const at::Tensor& w1 = parameters_[kW1];
  const at::Tensor& b1 = parameters_[kB1];
  const at::Tensor wide = segment_bounds(w1, b1);
  const at::Tensor low = wide.narrow(0, 0, wide.size(0) - 1).unsqueeze(1);
  const at::Tensor high = wide.narrow(0, 1, wide.size(0) - 1).unsqueeze(1);
  active_ = formulas::fire_unit_active(w1, b1, low, high).to(at::kDouble);
  const at::Tensor by_unit = active_.transpose(0, 1);
  bounds = floats(wide);
  slopes = floats(at::matmul(parameters_[kW2] * w1, by_unit));
  intercepts = floats(at::matmul(parameters_[kW2] * b1, by_unit) + parameters_[kB2].unsqueeze(1));
}

FireTerms::Rows FireTerms::rows_at(const at::Tensor& places) const {
  const at::Tensor within = (threshold_ <= places).logical_not();  // so is a NaN
  const at::Tensor reach = at::where(within, threshold_, places);
  const at::Tensor scale = 1.0 / ((c_ * reach).log1p() + kEpsilon);
  const at::Tensor slope = -scale * scale / (c_ * reach + 1.0);
  return {scale, slope * reach, slope * c_ * within};
}

std::vector<at::Tensor> FireTerms::gradients(const at::Tensor& dsegments, const at::Tensor& drows,
                                             const at::Tensor& q_places) const {
  const at::Tensor wide = dsegments.to(at::kDouble);
  const at::Tensor dintercepts = wide.select(2, 1);
  // Per head and unit, over the segments in which the unit is active.
  const at::Tensor at_slopes = at::matmul(wide.select(2, 0), active_);
  const at::Tensor at_intercepts = at::matmul(dintercepts, active_);
  const at::Tensor& w2 = parameters_[kW2];
  const at::Tensor dw2 = at_slopes * parameters_[kW1] + at_intercepts * parameters_[kB1];
  const at::Tensor by_row = drows.sum(at::IntArrayRef{0, 1}, false, at::kDouble);  // [Tq, 2]
  const Rows rows = rows_at(q_places.to(at::kDouble));
  const at::Tensor from_psi = by_row.select(1, 0);
  const at::Tensor from_scale = by_row.select(1, 1);
  const at::Tensor dc = (from_psi * rows.scale + from_scale * rows.dc).sum(0, true);
  const at::Tensor dthreshold = (from_scale * rows.dthreshold).sum(0, true);
  return {sign_of(parameters_[kC]) * dc,
          sign_of(parameters_[kThresholdScale]) * init_threshold_ * dthreshold,
          (at_slopes * w2).sum(0),
          (at_intercepts * w2).sum(0),
          dw2,
          dintercepts.sum(1)};
}

}  // namespace posenc::ops
