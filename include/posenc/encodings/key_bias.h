// A bias per key (site 4): a number for each key and head that the caller passes.
//
//   s_ij = r_ij + b_j
//
// For example the importance of each token, computed by the model. Values must be finite: use key_mask to mask keys.
// In Python it is posenc.attention(..., bias=b) with b of shape [B, H, Tk].
// Parameters: none. Input: value [B, H, Tk, 1], float32.
#pragma once

#include "posenc/encodings/token_term.h"

namespace posenc {

struct KeyBias {
  static constexpr Traits kTraits{
      .name = "key_bias",
      .site = Site::kContent,
      .title = "a bias per key",
      .formula = "s_ij = r_ij + b_j",
      .tex = R"(s_{ij} = r_{ij} + b_j)",
      .where = "b is a number per key and head that the caller passes.",
      .paper = "",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  [[nodiscard]] TokenForm token_form(double /*scale*/) const {
    return {.factor = 1.0, .running = false};
  }

  bool operator==(const KeyBias&) const = default;
};

void validate(const KeyBias& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const KeyBias& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const KeyBias& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
