// Wall (site 2, replaces the product of query and key): a forget gate per channel. FoX decays the whole score of a key;
// Wall decays each channel of the product separately, so a head can forget some channels and keep others.
//
//   r_ij = scale SUM_n q_in k_jn exp(P_in - P_jn),   P_t = SUM_{u <= t} log f_u
//
// The input is log f, at most 0; larger values are an error. Modules compute logsigmoid(W x + b + 8), so initially almost
// nothing is forgotten. With log f = 0 there are no positions. Kernels only take exponentials of sums between a key and a
// query or a tile boundary, never of P itself, so they are at most 1 and accurate even for P = -1e5. Sums follow the
// order of the tokens, not user-given positions; packed sequences have separate sums, and the gates of masked tokens
// (key_mask) are ignored. Attention must be causal, because later keys have no decay. It composes with fox, biases,
// temperature, softcap, sink and stick_breaking, but not with rotations: they mix channels that decay at different
// rates, so scores would depend on absolute positions.
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
          "τ is the scale of the scores, n counts channels; the model computes the gate f of "
          "token t and channel n from the token.",
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

// SPDX-License-Identifier: MIT
