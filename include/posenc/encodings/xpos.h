// xPos (site 2): RoPE with an exponential decay. Queries shrink and keys grow with the position, pair
// by pair, so scores decay with the distance and still depend only on it.
//
//   zeta_p = (2p/d + gamma) / (1 + gamma)
//   q'_n = R(n) q_n * zeta^((n - center)/scale_base)
//   k'_n = R(n) k_n * zeta^(-(n - center)/scale_base)
//
// so <q'_i, k'_j> has the factor zeta^((i-j)/scale_base). center cancels in the product and only keeps
// both powers small. It must be the same for queries and cached keys: by default it is the middle of
// the sequence, so the rotation depends on the length (length.h); set it to cache rotated keys.
//
// Sun et al. 2022, "A length-extrapolatable transformer", arXiv 2212.10554, equation 11.
#pragma once

#include <optional>

#include "posenc/encodings/rope.h"

namespace posenc {

struct Xpos {
  double theta = 10000.0;
  PairLayout layout = PairLayout::kHalf;
  std::int64_t rotary_dim = 0;
  std::int64_t dim_offset = 0;
  double gamma = 0.4;
  double scale_base = 512.0;
  std::optional<double> center = {};
  Precision precision = Precision::kExact;

  [[nodiscard]] bool follows_length(const Lengths& /*lengths*/) const {
    return !center.has_value();
  }
  [[nodiscard]] Xpos at(const Lengths& lengths) const;

  static constexpr Traits kTraits{
      .name = "xpos",
      .site = Site::kQueryKey,
      .title = "rotation with exponential decay",
      .formula = "q'_n = R(n) q_n zeta^(n/s), k'_n = R(n) k_n zeta^(-n/s)",
      .tex = R"(q'_n = R(n)\,q_n\,\zeta^{\,n/s},\quad k'_n = R(n)\,k_n\,\zeta^{-n/s},\qquad )"
             R"(\zeta_p = \frac{2p/d + \gamma}{1 + \gamma})",
      .where =
          "s is scale_base: per pair, the product has the factor ζ to the power (i − j)/s and "
          "decays with the distance.",
      .paper = "Sun et al. 2022, arXiv 2212.10554",
      .relative = true,
      .extrapolates = true,
      .linear_attention = true,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("theta", self.theta, rule_above("base of the frequencies", 1, 1e30, log_range(100, 1e7)));
    visit("layout", self.layout, Rope::kLayoutRule);
    visit("rotary_dim", self.rotary_dim, Rope::kRotaryDimRule);
    visit("dim_offset", self.dim_offset, Rope::kDimOffsetRule);
    visit("gamma", self.gamma,
          rule_above("smoothing; larger values decay less", 0, 1e6, log_range(0.05, 4)));
    visit("scale_base", self.scale_base,
          rule_above("positions per power of zeta", 0, 1e15, log_range(32, 8192)));
    visit("center", self.center,
          FieldRule{.doc = "position of magnitude one; default: the middle of the sequence",
                    .advanced = true,
                    .usual = {0, 2048}});
    visit("precision", self.precision, Rope::kPrecisionRule);
  }
  bool operator==(const Xpos&) const = default;
};

void validate(const Xpos& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Xpos& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
