// FoX, the forgetting transformer (site 4): a forget gate per token decays all earlier tokens.
//
//   s_ij = r_ij + c_i - c_j,   c_t = SUM_{u <= t} log f_u
//
// Key j is decayed by the gates f of all tokens after it, up to query i. The input is log f, not f: modules compute
// logsigmoid(w_h . x_t + b_h), which is accurate where f is near 1. It must be finite. The sums follow the order of the
// tokens, not user-given positions. Packed sequences have separate sums, and the gates of masked tokens (key_mask) are
// ignored.
// prune=true skips tiles of keys with negligible weight: with R = scale * max |q| * max |k|, tiles whose decay exceeds
// 2 R + ln(keys) + 10 have together less than e^-10 (5e-5) of a row's weight. It requires log f <= 0, applies to forward
// and backward on CPU and GPU, and has no effect if another term changes the scores. NaN in a skipped value does not
// propagate.
// bidirectional=true is for attention that is not causal: keys after the query are decayed by the tokens from the query
// to the one before the key, SUM_{t=i}^{j-1} log f_t, the mirror image of the rule. Without it such a key would get
// c_i - c_j, which amplifies it.
// scaled=true multiplies the term by the scale of the scores, as the code of PaTH does; FoX does not.
//
// Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", arXiv 2503.02130.
// Pruning: Lin et al. 2025, arXiv 2504.06949.
// Parameters: none. Input: log_f [B, H, Tk, 1], float32.
#pragma once

#include "posenc/encodings/token_term.h"

namespace posenc {

struct Fox {
  bool scaled = false;
  bool prune = false;
  bool bidirectional = false;

  static constexpr Traits kTraits{
      .name = "fox",
      .site = Site::kContent,
      .title = "forget gates",
      .formula = "s_ij = r_ij + SUM_{t=j+1..i} log f_t",
      .tex = R"(s_{ij} = r_{ij} + \sum_{t=j+1}^{i} \ln f_t,\qquad )"
             R"(f_t = \sigma(w_h^{\top} x_t + b_h))",
      .where =
          "Every token t decays all tokens before it by its gate f, which the model "
          "computes from the token.",
      .paper = "Lin et al. 2025, arXiv 2503.02130",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("scaled", self.scaled,
          FieldRule{.doc = "multiply the term by the scale of the scores, as PaTH's code does"});
    visit("prune", self.prune,
          FieldRule{.doc = "skip keys whose weight is below 5e-5 of the row", .advanced = true});
    visit("bidirectional", self.bidirectional,
          FieldRule{.doc = "also decay keys after the query, by the tokens between"});
  }
  [[nodiscard]] TokenForm token_form(double scale) const {
    return {.factor = scaled ? scale : 1.0, .running = true, .both_sides = bidirectional};
  }

  bool operator==(const Fox&) const = default;
};

void validate(const Fox& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Fox& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const Fox& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
