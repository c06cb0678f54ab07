// Wall (site 2, in place of the product of query and key): a forget gate for every channel. FoX fades the score of a key;
// Wall fades each channel of the product for itself, so that a head may forget some of what a key says and keep the rest.
//
//   r_ij = scale SUM_n q_in k_jn exp(P_in - P_jn),   P_t = SUM_{u <= t} log f_u
//
// The input is log f, at most 0; larger values are an error. A module computes it as logsigmoid(W x + b + 8), so that
// initially nearly nothing is forgotten. log f = 0 leaves attention without positions. Exponentials are taken of sums
// over the tokens between a key and a query, or a tile's end, never of P itself: they are at most 1, exact where P
// reaches -1e5. Sums follow the order of the tokens, not positions that a caller gives; packed sequences start again, and
// tokens that key_mask hides fade nothing. A key is not faded by tokens after the query, so attention must be causal.
// Everything else composes: fox, biases, temperature, softcap, sink, stick_breaking. Rotations do not: they mix channels
// that fade at different rates, so scores would depend on absolute positions.
//
// Wall attention, 2026; per-channel gates of scores as in gated linear attention (Yang et al. 2024, arXiv 2312.06635).
// Parameters: none. Input: log_f [B, Hkv, Tk, D], float32.
#pragma once

#include "posenc/encodings/common.h"

namespace posenc {

struct Wall {
  static constexpr Traits kTraits{
      .name = "wall",
      .site = Site::kQueryKey,
      .title = "a forget gate per channel",
      .formula = "r_ij = scale SUM_n q_in k_jn exp(SUM_{t=j+1..i} log f_tn)",
      .tex = R"(r_{ij} = \tau \sum_n q_{in}\, k_{jn} \exp\Bigl(\sum_{t=j+1}^{i} \ln f_{tn}\Bigr))",
      .where =
          "τ is the scale of the scores, n counts channels; the gate f of token t and channel n is "
          "computed from the token by the model.",
      .paper = "Wall attention, 2026",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}

  bool operator==(const Wall&) const = default;
};

void validate(const Wall& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Wall& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const Wall& config, const ModelShape& shape);

}  // namespace posenc
