// No positional encoding (NoPE): only a causal mask carries information about order.
// Haviv et al. 2022, arXiv 2203.16634; Kazemnejad et al. 2023, arXiv 2305.19466.
#pragma once

#include "posenc/encodings/common.h"

namespace posenc {

struct None {
  static constexpr Traits kTraits{
      .name = "none",
      .site = Site::kNone,
      .title = "no positions (NoPE)",
      .formula = "s_ij = r_ij",
      .tex = R"(s_{ij} = r_{ij} = \tfrac{1}{\sqrt d}\langle q_i, k_j\rangle)",
      .where = "No positional encoding: only a causal mask carries information about order.",
      .paper = "Kazemnejad et al. 2023, arXiv 2305.19466",
      .relative = true,
      .extrapolates = true,
      .linear_attention = true,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const None&) const = default;
};

inline void validate(const None& /*config*/, const ModelShape& /*shape*/) {}
inline std::vector<ParameterInfo> parameters(const None& /*config*/, const ModelShape& /*shape*/) {
  return {};
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
