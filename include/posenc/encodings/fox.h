// FoX, the forgetting transformer (site 4): every token fades all tokens before it.
//
//   s_ij = r_ij + c_i - c_j,   c_t = SUM_{u <= t} log f_u
//
// A key j is faded by the gates f of all tokens after it, up to the query i. The input is log f, not f: a module
// computes it as logsigmoid(w_h . x_t + b_h), which is exact where f is near 1. It must be finite. The sums follow
// the order of the tokens, not positions that a caller gives; each packed sequence has its own, and tokens that
// key_mask hides fade nothing.
// prune=true leaves out keys that are faded so far that they cannot matter: with R the largest norm of a query times the
// largest of a key, times the scale, tiles of keys whose fading passes 2 R + ln(keys) + 10 together have less than e^-10
// (5e-5) of a row's weight. It needs log f <= 0, holds for forward and backward alike, and is used on CPU and GPU
// where no other term changes the scores; elsewhere nothing is left out. A NaN in a value that is left out does not show.
// bidirectional=true is for attention that also sees keys after the query: these are faded by the tokens from the query
// to the one before the key, SUM_{t=i}^{j-1} log f_t, which is the same rule read from the other end. Without it a key
// after the query would get c_i - c_j, which is no fading.
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
          "Every token t fades all tokens before it by its gate f, which the model "
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
    visit(
        "prune", self.prune,
        FieldRule{.doc = "leave out keys whose weight is below 5e-5 of the row", .advanced = true});
    visit("bidirectional", self.bidirectional,
          FieldRule{.doc = "fade keys after the query, too, by the tokens between"});
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
