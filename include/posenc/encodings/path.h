// PaTH (site 2, replaces the product of query and key): the query is transformed by a Householder-like matrix of every
// token between key and query, which the model computes from the token.
//
//   r_ij = scale k_j^T M_{j+1} M_{j+2} ... M_i q_i,   M_t = I - b_t w_t w_t^T
//
// Modules compute w with unit norm and b in (0, 2), so M_t never increases the norm: b = 1 removes the component along w
// and b = 2 reflects it. The operators use w and b as given. With b = 0 there are no positions. The products follow the
// order of the tokens, not user-given positions; packed sequences are independent, and M_t is the identity for masked
// tokens (key_mask). Attention must be causal, because only earlier keys have a product. It composes with fox
// (PaTH-FoX), biases, temperature, softcap, sink and stick_breaking, but not with rotations: they do not commute with
// M_t, so scores would depend on absolute positions.
//
// Yang et al. 2025, "PaTH Attention: Position Encoding via Accumulating Householder Transformations", arXiv 2505.16381.
// Parameters: none. Inputs: w [B, Hkv, Tk, D]; b [B, Hkv, Tk, 1], float32.
#pragma once

#include "posenc/encodings/common.h"

namespace posenc {

struct Path {
  static constexpr Traits kTraits{
      .name = "path",
      .site = Site::kQueryKey,
      .title = "Householder steps between key and query",
      .formula = "r_ij = scale k_j^T PROD_{t=j+1..i} (I - b_t w_t w_t^T) q_i",
      .tex = R"(r_{ij} = \tau\, k_j^{\top} \prod_{t=j+1}^{i} )"
             R"(\bigl(I - b_t\, w_t w_t^{\top}\bigr)\, q_i)",
      .where =
          "τ is the scale of the scores; w has unit norm and b is between 0 and 2: the model "
          "computes both from the token t.",
      .paper = "Yang et al. 2025, arXiv 2505.16381",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}

  bool operator==(const Path&) const = default;
};

void validate(const Path& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Path& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const Path& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
