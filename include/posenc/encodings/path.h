// PaTH (site 2, in place of the product of query and key): on its way to a key, a query is transformed by every token in
// between. A transformation is a step of a Householder kind that the model computes from the token.
//
//   r_ij = scale k_j^T M_{j+1} M_{j+2} ... M_i q_i,   M_t = I - b_t w_t w_t^T
//
// With w of length one and b in (0, 2), as modules make them, a step shortens a query along w (b = 1 removes that part,
// b = 2 reflects it) and never lengthens it. The operators take w and b as they are. b = 0 leaves attention without
// positions. Steps follow the order of the tokens, not positions that a caller gives: those of a query start at its own
// token, packed sequences start again, and tokens that key_mask hides make no step. Steps lead to earlier keys alone, so
// attention must be causal. Everything else composes: fox (PaTH-FoX), biases, temperature, softcap, sink,
// stick_breaking. Rotations do not: they do not commute with the steps, so scores would depend on absolute positions.
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
          "τ is the scale of the scores; w has length one and b is between 0 and 2: both are "
          "computed from the token t by the model.",
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
