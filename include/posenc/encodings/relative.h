// Learned relative bias (site 3): a scalar per head and distance, clipped at max_distance.
//
//   B(h, i, j) = weight[h, clip(i - j)]      clip to [0, K] (causal) or [-K, K] (bidirectional)
//
// with K = max_distance; weight is [heads, K+1] or [heads, 2K+1].
//
// The scalar form of Shaw et al. 2018, arXiv 1803.02155, section 3.2; Swin and BEiT use it in 2D.
#pragma once

#include <algorithm>

#include "posenc/encodings/distance_bias.h"

namespace posenc {

struct Relative {
  std::int64_t max_distance = 128;
  bool bidirectional = false;
  double init_std = 0.0;

  static constexpr Traits kTraits{
      .name = "relative",
      .site = Site::kBias,
      .title = "learned clipped relative bias",
      .formula = "B = weight[h, clip(i - j)]",
      .tex = R"(B(h, i, j) = W_{h,\;\mathrm{clip}(i - j,\; 0,\; K)})",
      .where =
          "A trained number per head and distance; K is max_distance, and farther keys "
          "share its entry.",
      .paper = "Shaw et al. 2018, arXiv 1803.02155",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("max_distance", self.max_distance,
          rule_between("farther keys share the last entry", 1, 1 << 24, log_range(4, 2048)));
    visit("bidirectional", self.bidirectional,
          FieldRule{.doc = "entries for keys after the query"});
    visit("init_std", self.init_std, kInitStdRule);
  }

  static constexpr int kReads = 1;
  static constexpr bool kHeadsLast = false;
  [[nodiscard]] std::int64_t entries() const { return max_distance - lowest() + 1; }
  [[nodiscard]] std::int64_t reach() const { return max_distance; }
  [[nodiscard]] std::int64_t entry(std::int64_t d) const {
    return std::clamp(d, lowest(), max_distance) - lowest();
  }
  [[nodiscard]] std::int64_t lowest() const { return bidirectional ? -max_distance : 0; }
  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real value(const std::array<Real, kReads>& x, const Distance& /*d*/) const {
    return x[0];
  }

  bool operator==(const Relative&) const = default;
};

void validate(const Relative& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Relative& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
