// Logit soft-capping (site 5, softmax): bounds scores smoothly to (-cap, cap).
//
//   s_ij -> cap tanh(s_ij / cap)
//
// after all terms of sites 2 to 4 and before the mask. Scores far below the cap hardly change. The gradient is
// multiplied by 1 - (s'_ij / cap)^2, where s' is the capped score. Gemma 2 uses cap = 50.
//
// Gemma Team 2024, "Gemma 2", arXiv 2408.00118, section 2; Bello et al. 2017, arXiv 1611.09940.
// Parameters: none.
#pragma once

#include "posenc/encodings/common.h"
#include "posenc/encodings/dual.h"

namespace posenc {

struct Softcap {
  double cap = 50.0;

  static constexpr Traits kTraits{
      .name = "softcap",
      .site = Site::kSoftmax,
      .title = "logit soft-capping",
      .formula = "s_ij -> cap tanh(s_ij / cap)",
      .tex = R"(s_{ij} \to c \tanh\frac{s_{ij}}{c})",
      .where = "c is cap: scores stay within (-c, c), and those far below c hardly change.",
      .paper = "Gemma Team 2024, arXiv 2408.00118",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("cap", self.cap, FieldRule{.doc = "bound of the scores", .min = 1e-3, .max = 1e6});
  }

  template <class Real>
  POSENC_HOST_DEVICE Real value(const Real& score) const {
    using formulas::times;
    using std::tanh;
    return times(tanh(times(score, 1.0 / cap)), cap);
  }
  // The derivative at a score whose capped value is `bounded`.
  template <class Real>
  POSENC_HOST_DEVICE Real slope(Real bounded) const {
    const Real share = bounded / static_cast<Real>(cap);
    return Real(1) - share * share;
  }

  bool operator==(const Softcap&) const = default;
};

inline void validate(const Softcap& /*config*/, const ModelShape& /*shape*/) {}
inline std::vector<ParameterInfo> parameters(const Softcap& /*config*/,
                                             const ModelShape& /*shape*/) {
  return {};
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
