// A learned vector per absolute position, added to the token embedding (site 1).
//
//   E(t) = weight[t],  t = 0 .. max_positions - 1        weight is [max_positions, model_dim]
//
// Gehring et al. 2017, arXiv 1705.03122, section 3.1; GPT-2, BERT. Positions outside the table are an
// error.
#pragma once

#include <span>

#include "posenc/encodings/common.h"

namespace posenc {

struct Learned {
  std::int64_t max_positions = 2048;
  double init_std = 0.02;

  static constexpr Traits kTraits{
      .name = "learned",
      .site = Site::kInput,
      .title = "learned absolute positions",
      .formula = "E(t) = weight[t]",
      .tex = R"(E(t) = W_t, \qquad W \in \mathbb{R}^{\text{max\_positions} \times d})",
      .where = "One trained vector per position; there is none past the table.",
      .paper = "Gehring et al. 2017, arXiv 1705.03122",
      .relative = false,
      .extrapolates = false,
      .linear_attention = true,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("max_positions", self.max_positions,
          rule_between("rows of the table; a later position is an error", 1, 1 << 30,
                       log_range(16, 8192)));
    visit("init_std", self.init_std, kInitStdRule);
  }
  bool operator==(const Learned&) const = default;
};

void validate(const Learned& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Learned& config, const ModelShape& shape);

// Row of the table for one position; throws Error if it is outside the table.
std::span<const double> embedding(const Learned& config, const Parameters& parameters,
                                  std::int64_t position, std::int64_t model_dim);

}  // namespace posenc

// SPDX-License-Identifier: MIT
