// FIRE (site 3): a small network of the distance, normalised by the query's position, so that the
// network sees the same range of inputs at every length.
//
//   B(h, i, j) = f( psi(|i - j|) / (psi(max(i, L)) + 1e-6) )_h,       psi(x) = ln(|c| x + 1)
//   f(u)_h     = w2[h] . relu(w1 u + b1) + b2[h]                      `width` hidden units
//   L          = |threshold_scale| * init_threshold
//
// Li et al. 2023, "Functional interpolation for relative positions", arXiv 2310.04418, equation 3.
// Toeplitz while i <= L; for i > L the function of the distance depends on i.
// Parameters: c [1], threshold_scale [1], w1 [width], b1 [width], w2 [heads, width], b2 [heads].
#pragma once

#include "posenc/encodings/common.h"
#include "posenc/encodings/dual.h"

namespace posenc {

struct Fire {
  std::int64_t width = 32;
  double init_c = 0.1;
  double init_threshold = 512.0;

  static constexpr Traits kTraits{
      .name = "fire",
      .site = Site::kBias,
      .title = "functional interpolation for relative positions",
      .formula = "B = f(psi(i - j) / psi(max(i, L))), psi(x) = ln(c x + 1)",
      .tex = R"(B(h, i, j) = f_h\!\left(\frac{\psi(i - j)}{\psi(\max(i, L))}\right),\qquad )"
             R"(\psi(x) = \ln(c\,x + 1))",
      .where =
          "f is a small network; the distance is normalised by the position of the query, "
          "so that every length looks alike.",
      .paper = "Li et al. 2023, arXiv 2310.04418",
      .relative = false,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("width", self.width,
          rule_between("hidden units of the network", 1, 4096, log_range(1, 128)));
    visit("init_c", self.init_c, rule_above("initial c of psi", 0, 1e6, log_range(0.001, 10)));
    visit("init_threshold", self.init_threshold,
          rule_above("initial L; shorter rows are normalised by it", 0, 1e15, log_range(16, 8192)));
  }
  bool operator==(const Fire&) const = default;

  // The network's input u = psi(c, |i - j|) * row_scale(init_threshold, c, threshold_scale, i), for all backends (dual.h).
  // At i = L the row is normalised by i, so the threshold has no gradient there. NaN propagates.
  template <class Real, class Distance>
  POSENC_HOST_DEVICE static Real psi(const Real& c, const Distance& distance) {
    using formulas::magnitude;
    using std::log1p;
    return log1p(magnitude(c) * distance);
  }
  template <class Real, class Place>
  POSENC_HOST_DEVICE static Real row_scale(double init_threshold, const Real& c,
                                           const Real& threshold_scale, const Place& place) {
    using formulas::at_least;
    using formulas::magnitude;
    constexpr double kEpsilon = 1e-6;
    return 1.0 / (psi(c, at_least(magnitude(threshold_scale) * init_threshold, place)) + kEpsilon);
  }
};

void validate(const Fire& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Fire& config, const ModelShape& shape);

double bias(const Fire& config, const Parameters& parameters, std::int64_t head, std::int64_t i,
            std::int64_t j);
void add_bias_gradient(const Fire& config, const Parameters& parameters, std::int64_t head,
                       std::int64_t i, std::int64_t j, double dbias, Parameters& gradient);

}  // namespace posenc

// SPDX-License-Identifier: MIT
