// Scalar formulas on scores, forward and backward, compiled for the host (float64, the reference) and for the
// device (float32, the CUDA kernels). The formulas of distance biases are in their configs.
#pragma once

#include "posenc/encodings/dual.h"

namespace posenc::formulas {

// FIRE: whether a hidden unit, max(w u + b, 0), is active for u between two neighbouring points where
// units switch. It compares the unit's own point with them: a point in between need not exist in
// floating point. A NaN is active, so that it reaches the bias. For numbers and for tensors of them.
template <class Real>
POSENC_HOST_DEVICE inline auto fire_unit_active(const Real& w, const Real& b, const Real& low,
                                                const Real& high) {
  const Real switches = -b / w;
  return ((w > 0.0) & (switches <= low)) | ((w < 0.0) & (switches >= high)) |
         ((w == 0.0) & (b > 0.0)) | (w != w) | (b != b);  // NOLINT(misc-redundant-expression)
}

// CoPE: the logit of a position between two entries of a table, its derivative by the position, and
// that of a gate by its logit.
template <class Real>
POSENC_HOST_DEVICE inline Real cope_logit(Real low, Real slope, Real fraction) {
  return fraction * slope + low;
}
template <class Real>
POSENC_HOST_DEVICE inline Real cope_slope(Real low, Real high) {
  return high - low;
}
template <class Real>
POSENC_HOST_DEVICE inline Real gate_slope(Real gate) {
  return gate * (Real(1) - gate);
}

// The gradient at a score from that at its weight; `delta` is the row's sum of both.
template <class Real>
POSENC_HOST_DEVICE inline Real softmax_gradient(Real weight, Real dweight, Real delta) {
  return weight * (dweight - delta);
}

}  // namespace posenc::formulas
