// ALiBi (site 3): a penalty that grows with distance, with a slope per head.
//
//   B(h, i, j) = -slope_h * |i - j|               bidirectional
//   B(h, i, j) = -slope_h * max(i - j, 0)         causal (keys after the query are masked anyway)
//
// For a power of two n of heads, the slopes are 2^(-8h/n), h = 1 .. n. For other n, systems differ:
//   standard   the slopes of the closest lower power of two, then every other slope of twice it
//              (the paper's code, Hugging Face's BLOOM, vLLM, llama.cpp)
//   mpt        the slopes of the next higher power of two, first those with even h, then those with
//              odd h, truncated to n (MosaicML's MPT); the same numbers as standard, except for
//              rounding with precision=hf
//   geometric  2^(-8h/n) for any n (attention-gym)
//
// Press et al. 2021, "Train short, test long", arXiv 2108.12409, section 3. Parameter: slopes
// [heads], a constant unless trainable=true.
#pragma once

#include "posenc/encodings/distance_bias.h"

namespace posenc {

struct Alibi {
  enum class Slopes { kStandard, kMpt, kGeometric };

  Slopes slopes = Slopes::kStandard;
  double bias_max = 8.0;
  bool trainable = false;
  bool bidirectional = false;
  Precision precision = Precision::kExact;

  static constexpr Traits kTraits{
      .name = "alibi",
      .site = Site::kBias,
      .title = "attention with linear biases",
      .formula = "B = -slope_h |i - j|",
      .tex = R"(B(h, i, j) = -m_h\,|i - j|, \qquad m_h = 2^{-b\,h/H},\; h = 1, \dots, H)",
      .where =
          "A penalty per token of distance; m is the slope of head h, b is bias_max, H the "
          "number of heads.",
      .paper = "Press et al. 2021, arXiv 2108.12409",
      .relative = true,
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("slopes", self.slopes,
          FieldRule{.doc = "convention for head counts that are not powers of two"});
    visit("bias_max", self.bias_max, rule_above("the last slope is 2^-bias_max", 0, 64, {1, 16}));
    visit("trainable", self.trainable, FieldRule{.doc = "train the slopes", .advanced = true});
    visit("bidirectional", self.bidirectional,
          FieldRule{.doc = "penalise keys after the query too"});
    visit("precision", self.precision,
          FieldRule{.doc = "slopes in float64, or rounded to float32 as in Hugging Face",
                    .advanced = true});
  }

  static constexpr int kReads = 1;
  template <class Real, class Distance>
  POSENC_HOST_DEVICE Real value(const std::array<Real, kReads>& slope, const Distance& d) const {
    using formulas::at_least;
    using formulas::magnitude;
    return -slope[0] * (bidirectional ? magnitude(d) : at_least(d, 0.0));
  }

  bool operator==(const Alibi&) const = default;
};
constexpr std::array<std::string_view, 3> enum_names(Alibi::Slopes /*tag*/) {
  return {"standard", "mpt", "geometric"};
}

void validate(const Alibi& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Alibi& config, const ModelShape& shape);

std::vector<double> alibi_slopes(const Alibi& config, std::int64_t heads);

}  // namespace posenc

// SPDX-License-Identifier: MIT
