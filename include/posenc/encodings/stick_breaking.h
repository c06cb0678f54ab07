// Stick-breaking (site 5, in place of the softmax): the weight of a row is a stick, and every key, from the query back,
// breaks off its share of what the nearer keys have left.
//
//   A_ij = sigmoid(s_ij) PROD_{j < t < i} (1 - sigmoid(s_it)),   j < i
//   o_i  = SUM_j A_ij v_j,   what is left of a row:  PROD_{t < i} (1 - sigmoid(s_it)) = 1 - SUM_j A_ij
//
// The order of the keys alone gives positions: among equal scores the nearest key wins, at every length. A query does
// not see its own token or later ones, whatever the mask; hidden keys break nothing off. A row that sees no key is 0.
// The log-sum-exp of a row is here the logarithm of what is left; -infinity where no key is seen.
// There is no softmax left for a sink, so the two do not go together.
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
      .title = "shares of what nearer keys leave",
      .formula = "A_ij = sigmoid(s_ij) PROD_{j<t<i} (1 - sigmoid(s_it))",
      .tex = R"(A_{ij} = \sigma(s_{ij}) \prod_{j < t < i} \bigl(1 - \sigma(s_{it})\bigr))",
      .where =
          "σ is the sigmoid: from the query back, each key takes its share of what the nearer "
          "keys have left.",
      .paper = "Tan et al. 2024, arXiv 2410.17980",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}

  bool operator==(const StickBreaking&) const = default;
};

// ln(1 + exp(x)): minus the logarithm of what a key with the score x leaves. At -x, of what it takes.
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
