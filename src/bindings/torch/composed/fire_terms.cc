#include "torch/composed/fire_terms.h"

#include <array>
#include <limits>

#include "encodings/score_formulas.h"
#include "torch/composed/numbers.h"

namespace posenc::ops {
namespace {

using formulas::Dual;
using formulas::Numbers;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
enum Index : std::size_t { kC, kThresholdScale, kW1, kB1, kW2, kB2 };

// Where hidden units switch, in order, from -infinity to infinity. Units that never do, and those of a
// network that has diverged, come last.
at::Tensor segment_bounds(const at::Tensor& w1, const at::Tensor& b1) {
  const at::Tensor switches = -b1 / w1;
  const at::Tensor known = switches.masked_fill(switches.isfinite().logical_not(), kInfinity);
  const at::Tensor end = at::full({1}, kInfinity, known.options());
  return at::cat({-end, std::get<0>(known.sort()), end});
}

// A parameter and its derivative by itself, or (not `moves`) by another.
Dual<Numbers> parameter(const at::Tensor& x, bool moves) {
  return {{x}, {moves ? at::ones_like(x) : at::Tensor()}};
}

// [segments, width], 1 where a unit is active.
at::Tensor active_units(const at::Tensor& w1, const at::Tensor& b1) {
  const at::Tensor bounds = segment_bounds(w1, b1);
  const at::Tensor low = bounds.narrow(0, 0, bounds.size(0) - 1).unsqueeze(1);
  const at::Tensor high = bounds.narrow(0, 1, bounds.size(0) - 1).unsqueeze(1);
  return formulas::fire_unit_active(w1, b1, low, high).to(at::kDouble);
}

// Of c and of the threshold's scale, from the rows' sums [Tq, 2].
std::array<at::Tensor, 2> row_gradients(const Fire& config, const std::vector<at::Tensor>& p,
                                        const at::Tensor& sums, const at::Tensor& places) {
  const auto scale = [&](bool by_c) {
    return Fire::row_scale(config.init_threshold, parameter(p[kC], by_c),
                           parameter(p[kThresholdScale], !by_c), Numbers{places});
  };
  const Dual<Numbers> by_c = scale(true);
  const at::Tensor from_psi = sums.select(1, 0);
  const at::Tensor from_scale = sums.select(1, 1);
  return {(from_psi * by_c.value.all + from_scale * by_c.slope.all).sum(0, true),
          (from_scale * scale(false).slope.all).sum(0, true)};
}

}  // namespace

std::vector<at::Tensor> fire_gradients(const Fire& config,
                                       const std::vector<at::Tensor>& parameters,
                                       const at::Tensor& dsegments, const at::Tensor& drows,
                                       const at::Tensor& q_places) {
  std::vector<at::Tensor> p;
  for (const at::Tensor& x : parameters) p.push_back(x.to(at::kDouble));
  const at::Tensor active = active_units(p[kW1], p[kB1]);
  const at::Tensor wide = dsegments.to(at::kDouble);
  const at::Tensor dintercepts = wide.select(2, 1);
  // Per head and unit, over the segments in which the unit is active.
  const at::Tensor at_slopes = at::matmul(wide.select(2, 0), active);
  const at::Tensor at_intercepts = at::matmul(dintercepts, active);
  const at::Tensor dw2 = at_slopes * p[kW1] + at_intercepts * p[kB1];
  const at::Tensor by_row = drows.sum(at::IntArrayRef{0, 1}, false, at::kDouble);  // [Tq, 2]
  const auto [dc, dthreshold] = row_gradients(config, p, by_row, q_places.to(at::kDouble));
  return {dc,  dthreshold,        (at_slopes * p[kW2]).sum(0), (at_intercepts * p[kW2]).sum(0),
          dw2, dintercepts.sum(1)};
}

}  // namespace posenc::ops
