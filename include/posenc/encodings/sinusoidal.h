// Fixed sines and cosines of the absolute position, added to the token embedding (site 1).
//
//   spacing=paper:          inv_freq[i] = theta^(-2i/d)                    i = 0 .. ceil(d/2) - 1
//   spacing=tensor2tensor:  inv_freq[i] = theta^(-i/(floor(d/2) - 1))      i = 0 .. floor(d/2) - 1
//   layout=interleaved:     E(t)[2i] = sin(t inv_freq[i]),  E(t)[2i+1] = cos(t inv_freq[i])
//   layout=concat:          E(t)[i]  = sin(t inv_freq[i]),  E(t)[i+floor(d/2)] = cos(t inv_freq[i])
//
// Vaswani et al. 2017, arXiv 1706.03762, section 3.5 (interleaved, paper); tensor2tensor and
// fairseq concatenate the halves and use slightly different frequencies. Defined for any position.
// For odd d, the last sine has no cosine (interleaved) or the last channel is zero (concat).
#pragma once

#include <array>
#include <span>

#include "posenc/encodings/common.h"

namespace posenc {

struct Sinusoidal {
  enum class Layout { kInterleaved, kConcat };
  enum class Spacing { kPaper, kTensor2Tensor };

  double theta = 10000.0;
  Layout layout = Layout::kInterleaved;
  Spacing spacing = Spacing::kPaper;

  static constexpr Traits kTraits{
      .name = "sinusoidal",
      .site = Site::kInput,
      .title = "sinusoidal absolute positions",
      .formula = "E(t)[2i] = sin(t theta^(-2i/d)), E(t)[2i+1] = cos(t theta^(-2i/d))",
      .tex = R"(E(t)_{2i} = \sin\!\big(t\,\theta^{-2i/d}\big), \qquad )"
             R"(E(t)_{2i+1} = \cos\!\big(t\,\theta^{-2i/d}\big))",
      .where = "t is the position, i the pair, d the width of the vector.",
      .paper = "Vaswani et al. 2017, arXiv 1706.03762",
      .relative = false,
      .extrapolates = true,
      .linear_attention = true,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("theta", self.theta, rule_above("base of the frequencies", 1, 1e18, log_range(100, 1e7)));
    visit("layout", self.layout,
          FieldRule{.doc = "sine and cosine adjacent, or in two halves", .advanced = true});
    visit("spacing", self.spacing,
          FieldRule{.doc = "exponent 2i/d, or i/(d/2 - 1) as in tensor2tensor and fairseq"});
  }
  bool operator==(const Sinusoidal&) const = default;
};

constexpr std::array<std::string_view, 2> enum_names(Sinusoidal::Layout /*tag*/) {
  return {"interleaved", "concat"};
}
constexpr std::array<std::string_view, 2> enum_names(Sinusoidal::Spacing /*tag*/) {
  return {"paper", "tensor2tensor"};
}

void validate(const Sinusoidal& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Sinusoidal& config, const ModelShape& shape);

std::vector<double> sinusoidal_frequencies(const Sinusoidal& config, std::int64_t model_dim);
// Writes E(position) to out, which has model_dim entries.
void embedding(const Sinusoidal& config, std::int64_t position, std::span<double> out);
// The same with precomputed frequencies: does not allocate, for loops over many positions.
void embedding(const Sinusoidal& config, std::span<const double> frequencies, std::int64_t position,
               std::span<double> out) noexcept;

}  // namespace posenc

// SPDX-License-Identifier: MIT
