// Stick-breaking attention (site 5, replaces the softmax): from the query backwards, every key takes a fraction of the
// weight that the nearer keys have left.
//
//   A_ij = sigmoid(s_ij) PROD_{j < t < i} (1 - sigmoid(s_it)),   j < i
//   o_i  = SUM_j A_ij v_j,   remainder of a row:  PROD_{t < i} (1 - sigmoid(s_it)) = 1 - SUM_j A_ij
//
// Only the order of the keys matters: among equal scores the nearest key gets the largest weight, at every length. A
// query never attends to its own token or later ones, whatever the mask; masked keys take no weight. A row without keys
// is 0. `lse` of a row is the logarithm of its remainder, or -infinity without keys.
// It cannot be combined with a sink, which needs a softmax.
//
// Tan et al. 2024, "Stick-breaking Attention", arXiv 2410.17980, equation 3.
// Parameters: none.
#pragma once

#include "posenc/encodings/common.h"
#include "posenc/encodings/dual.h"

namespace posenc {

struct StickBreaking {
  static constexpr Traits kTraits{
      .name = "stick_breaking",
      .site = Site::kSoftmax,
      .title = "stick-breaking attention",
      .formula = "A_ij = sigmoid(s_ij) PROD_{j<t<i} (1 - sigmoid(s_it))",
      .tex = R"(A_{ij} = \sigma(s_{ij}) \prod_{j < t < i} \bigl(1 - \sigma(s_{it})\bigr))",
      .where =
          "σ is the sigmoid: from the query backwards, each key takes a fraction of the weight "
          "that the nearer keys have left.",
      .paper = "Tan et al. 2024, arXiv 2410.17980",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}

  bool operator==(const StickBreaking&) const = default;
};

// ln(1 + exp(x)) = -ln(1 - sigmoid(x)), and softplus(-x) = -ln sigmoid(x).
template <std::floating_point Real>
POSENC_HOST_DEVICE Real softplus(Real x) {
  using std::exp;
  using std::log1p;
  const Real size = formulas::magnitude(x);
  return (x > Real(0) ? x : Real(0)) + log1p(exp(-size));
}

inline void validate(const StickBreaking& /*config*/, const ModelShape& /*shape*/) {}
inline std::vector<ParameterInfo> parameters(const StickBreaking& /*config*/,
                                             const ModelShape& /*shape*/) {
  return {};
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
