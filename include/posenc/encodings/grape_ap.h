// GRAPE-AP (site 4): every token between a key and the query adds a penalty that depends on the query.
//
//   s_ij = r_ij + m_h SUM_{t=j+1}^{i} ln sigmoid(s <p_i, e_t>)
//
// p is an input of `rank` numbers per token and head. e = p, or with separate=true a second input: a model that rotates
// p_t before the product, as the paper allows, passes the rotated rows as e. s is `scale`, or 1 / sqrt(rank) if scale is
// 0. The sum runs over the unmasked keys in the order of the tokens, from the one after the key to the query's own; keys
// after the query get 0. User-given positions are not used.
// With <p_i, e_t> = 0 every step adds ln 2: ALiBi with the slope m ln 2.
//
// Zhang et al. 2025, "Group Representational Position Encoding", arXiv 2512.07805 (additive, path integral).
// Parameters: m [heads], initially ALiBi's slopes.
// Inputs: p [B, H, Tk, rank], and with separate=true e [B, H, Tk, rank].
#pragma once

#include "posenc/encodings/common.h"

namespace posenc {

struct GrapeAp {
  std::int64_t rank = 16;
  double scale = 0.0;
  bool separate = false;

  static constexpr Traits kTraits{
      .name = "grape_ap",
      .site = Site::kContent,
      .title = "path penalties weighted by the query",
      .formula = "s_ij = r_ij + m_h SUM_{t=j+1..i} ln sigmoid(s <p_i, e_t>)",
      .tex = R"(s_{ij} = r_{ij} + m_h \sum_{t=j+1}^{i} \ln \sigma(s\,\langle p_i,\, e_t \rangle))",
      .where =
          "p and e are a few numbers that the model computes for each token; m is a trained slope "
          "per head. Every token between key and query adds a penalty that depends on its product "
          "with the query's p.",
      .paper = "Zhang et al. 2025, arXiv 2512.07805",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("rank", self.rank,
          rule_between("numbers per token and head", 1, 1 << 16, log_range(1, 64)));
    visit("scale", self.scale,
          rule_between("factor of the products; 0: 1 / sqrt(rank)", 0, 1000, {0, 1}));
    visit("separate", self.separate,
          FieldRule{.doc = "a separate input e for the tokens between key and query"});
  }
  [[nodiscard]] double factor() const { return scale > 0.0 ? scale : default_scale(rank); }

  bool operator==(const GrapeAp&) const = default;
};

void validate(const GrapeAp& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const GrapeAp& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const GrapeAp& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
