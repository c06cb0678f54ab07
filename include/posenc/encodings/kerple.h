// KERPLE (site 3): conditionally positive definite kernels of the distance, learned per head.
//
//   log:    B(h, i, j) = -p_h ln(1 + a_h |i - j|)
//   power:  B(h, i, j) = -a_h |i - j|^p_h
//
// with p, a > 0 (and p <= 2 for power). As in the authors' code, the trained values are clamped to
// at least 0.01 when they are used; below that their gradient is zero.
//
// Chi et al. 2022, arXiv 2205.09921, equations 5 and 6. Parameters: p [heads], a [heads].
#pragma once

#include "posenc/encodings/distance_bias.h"

namespace posenc {

struct Kerple {
  enum class Kernel { kLog, kPower };

  Kernel kernel = Kernel::kLog;

  static constexpr Traits kTraits{
      .name = "kerple",
      .site = Site::kBias,
      .title = "kernelized relative positions",
      .formula = "B = -p_h ln(1 + a_h |i - j|), or -a_h |i - j|^p_h",
      .tex = R"(B(h, i, j) = -p_h \ln\!\big(1 + a_h |i - j|\big) \quad\text{or}\quad )"
             R"(-a_h\,|i - j|^{\,p_h})",
      .where = "p and a are trained per head, both positive.",
      .paper = "Chi et al. 2022, arXiv 2205.09921",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("kernel", self.kernel, FieldRule{.doc = "logarithmic or power"});
  }

  static constexpr double kSmallest = 0.01;
  static constexpr double kLargestPower = 2.0;

  static constexpr int kReads = 2;
  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real value(const std::array<Real, kReads>& x, const Distance& d) const {
    using formulas::at_least;
    using formulas::at_most;
    using formulas::magnitude;
    using std::log1p;
    using std::pow;
    const Distance apart = magnitude(d);
    const Real p = at_least(x[0], kSmallest);
    const Real a = at_least(x[1], kSmallest);
    if (kernel == Kernel::kLog) return -p * log1p(a * apart);
    // Distances are integers: the last factor is 0 at distance 0, otherwise 1.
    return -a * pow(at_least(apart, 1.0), at_most(p, kLargestPower)) * at_most(apart, 1.0);
  }

  bool operator==(const Kerple&) const = default;
};
constexpr std::array<std::string_view, 2> enum_names(Kerple::Kernel /*tag*/) {
  return {"log", "power"};
}

void validate(const Kerple& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Kerple& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
