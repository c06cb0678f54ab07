// Computes the entries of FIRE's tables on the host and the device, for kernels/fire_tables.h and
// kernels/cuda/fire_tables.h.
#pragma once

#include "encodings/score_formulas.h"
#include "posenc/encodings/fire.h"

namespace posenc {

// The network's weights: w1 [width], b1 [width], w2 [heads, width], b2 [heads].
struct FireWeights {
  const double* w1 = nullptr;
  const double* b1 = nullptr;
  const double* w2 = nullptr;
  const double* b2 = nullptr;
  std::int64_t width = 0;

  // Where a hidden unit switches; not finite for one that never does.
  [[nodiscard]] POSENC_HOST_DEVICE double switch_of(std::int64_t unit) const {
    return -b1[unit] / w1[unit];
  }
  // Between two neighbouring points where units switch.
  [[nodiscard]] POSENC_HOST_DEVICE bool active(std::int64_t unit, double low, double high) const {
    return formulas::fire_unit_active(w1[unit], b1[unit], low, high);
  }
};

// The bias in a segment is slope * u + intercept.
struct FireLine {
  double slope = 0.0;
  double intercept = 0.0;
};
POSENC_HOST_DEVICE inline FireLine fire_line(const FireWeights& network, std::int64_t head,
                                             double low, double high) {
  FireLine line{0.0, network.b2[head]};
  for (std::int64_t n = 0; n < network.width; ++n) {
    const bool active = network.active(n, low, high);
    const double w2 = network.w2[head * network.width + n];  // times 0, not skipped: it may be NaN
    line.slope += w2 * (active ? network.w1[n] : 0.0);
    line.intercept += w2 * (active ? network.b1[n] : 0.0);
  }
  return line;
}

// psi at a distance, and its derivative by c.
POSENC_HOST_DEVICE inline formulas::Dual<double> fire_psi(double c, std::int64_t distance) {
  const std::int64_t apart = distance < 0 ? -distance : distance;
  return Fire::psi(formulas::Dual<double>{c, 1.0}, static_cast<double>(apart));
}
// The scale of a row, and its derivative by c (where `by_c` is 1) or by the threshold's scale (where it is 0).
POSENC_HOST_DEVICE inline formulas::Dual<double> fire_row_scale(double init_threshold, double c,
                                                                double threshold_scale,
                                                                std::int64_t place, double by_c) {
  return Fire::row_scale(init_threshold, formulas::Dual<double>{c, by_c},
                         formulas::Dual<double>{threshold_scale, 1.0 - by_c},
                         static_cast<double>(place));
}

}  // namespace posenc
