// CoPE (site 4): contextual positions. Each query counts keys, weighted by a gate from the content.
//
//   gate      g_ij = sigmoid(gate logit)                       0 for masked keys
//   position  p_ij = min(SUM_{t >= j} g_it, npos_max - 1)      over the unmasked keys of query i;
//             causal: t = j .. i, both ends included, so p_ii = g_ii
//   interpolate:  z_i[p] = q_i . pos_emb[:, p];  f = floor(p_ij), w = p_ij - f
//                 c_ij = (1 - w) z_i[f] + w z_i[min(f + 1, npos_max - 1)]
//   alibi:        c_ij = m_h p_ij
//
// The gate logit is the raw score r_ij (gate_source=key), scale * q_i . kg_j with kg an extra
// projection (separate), or scale * q_i . v_j (value). gates_see_bias=true adds the biases of site 3.
// With gate_source=open all gates are 1: p_ij = i - j + 1, and c_ij = q_i . e[i - j + 1] are the
// relative position vectors of Shaw et al. 2018 (arXiv 1803.02155), clipped at npos_max - 1.
// logit_scale=sqrt_dim divides c_ij by sqrt(head_dim), as Meta's training code does;
// the paper's listing does not.
//
// Golovneva et al. 2024, "Contextual Position Encoding", arXiv 2405.18719, equations 3 to 6.
// Parameters: pos_emb [head_dim, npos_max], initially zero and shared by all heads (interpolate);
// or m [heads], initially minus ALiBi's slopes (alibi).
// Input: gate_k [B, Hkv, Tk, head_dim], the vectors kg of gate_source=separate.
#pragma once

#include <span>

#include "posenc/encodings/common.h"

namespace posenc {

struct Cope {
  enum class LogitScale { kNone, kSqrtDim };
  enum class GateSource { kKey, kSeparate, kValue, kOpen };
  enum class Variant { kInterpolate, kAlibi };

  std::int64_t npos_max = 64;
  LogitScale logit_scale = LogitScale::kNone;
  bool gates_see_bias = false;
  GateSource gate_source = GateSource::kKey;
  bool share_layers = false;
  Variant variant = Variant::kInterpolate;

  static constexpr Traits kTraits{
      .name = "cope",
      .site = Site::kContent,
      .title = "contextual position encoding",
      .formula = "p_ij = SUM_{t=j..i} sigmoid(r_it); c_ij = q_i . e[p_ij], interpolated",
      .tex = R"(g_{ij} = \sigma(r_{ij}),\qquad )"
             R"(p_{ij} = \min\!\Big(\sum_{t=j}^{i} g_{it},\; P - 1\Big),\qquad )"
             R"(c_{ij} = q_i^{\top}\big[(1 - w)\,e_{\lfloor p_{ij}\rfloor} + )"
             R"(w\,e_{\lceil p_{ij}\rceil}\big])",
      .where =
          "Gates g count the keys that the query finds worth counting; the count p is a "
          "fraction, w its part past the whole; P is npos_max.",
      .paper = "Golovneva et al. 2024, arXiv 2405.18719",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("npos_max", self.npos_max,
          rule_between("positions that are told apart", 2, 65536, log_range(2, 256)));
    visit("logit_scale", self.logit_scale,
          FieldRule{.doc = "leave the position logit as it is, or divide it by sqrt(head_dim)"});
    visit("gates_see_bias", self.gates_see_bias,
          FieldRule{.doc = "gates from the score with biases instead of the plain one"});
    visit("gate_source", self.gate_source,
          FieldRule{.doc = "what the gates compare the query with; open: every key counts as one"});
    visit("share_layers", self.share_layers,
          FieldRule{.doc = "one table for all layers of a model", .advanced = true});
    visit("variant", self.variant,
          FieldRule{.doc = "a learned table, or a slope times the position"});
  }
  bool operator==(const Cope&) const = default;
};
constexpr std::array<std::string_view, 2> enum_names(Cope::LogitScale /*tag*/) {
  return {"none", "sqrt_dim"};
}
constexpr std::array<std::string_view, 4> enum_names(Cope::GateSource /*tag*/) {
  return {"key", "separate", "value", "open"};
}
constexpr std::array<std::string_view, 2> enum_names(Cope::Variant /*tag*/) {
  return {"interpolate", "alibi"};
}

// Whether gates are products of the query with gate_k or the values instead of the keys.
constexpr bool has_gate_vectors(const Cope& config) {
  return config.gate_source == Cope::GateSource::kSeparate ||
         config.gate_source == Cope::GateSource::kValue;
}

void validate(const Cope& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Cope& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const Cope& config, const ModelShape& shape);

// The state of one query over all keys, kept from forward to backward.
struct CopeRow {
  std::vector<double> gate;      // 0 for masked keys
  std::vector<double> position;  // clamped
  std::vector<bool> clamped;     // saturated: the sum reached npos_max - 1, so there is no gradient
};

// The factor of position logits.
inline double logit_factor(const Cope& config, std::int64_t head_dim) {
  return config.logit_scale == Cope::LogitScale::kSqrtDim ? default_scale(head_dim) : 1.0;
}

// Gates and positions of a row from its gate logits; visible[j] is false for masked keys.
CopeRow cope_positions(const Cope& config, std::span<const double> gate_logit,
                       const std::vector<bool>& visible);

// The table that a query's position logits interpolate: z_i[p] = SUM_d q_i[d] pos_emb[d, p], or
// {m_h} for the head (alibi). `parameter` is the encoding's parameter.
std::vector<double> cope_table(const Cope& config, std::span<const double> parameter,
                               std::span<const double> q, std::int64_t head);

// Position logits c of a row, from its table.
void cope_logits(const Cope& config, const CopeRow& row, std::span<const double> table,
                 std::span<double> logits);

// The backward of cope_positions and cope_logits: adds to dtable and dgate_logit the gradients that
// follow from dlogits. Time and memory are linear in the length of the row.
void cope_backward(const Cope& config, const CopeRow& row, std::span<const double> table,
                   std::span<const double> dlogits, std::span<double> dtable,
                   std::span<double> dgate_logit);

}  // namespace posenc

// SPDX-License-Identifier: MIT
