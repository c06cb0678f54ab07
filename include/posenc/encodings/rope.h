// Rotary position embedding (site 2): each pair of channels is rotated by an angle proportional to
// the position, so the score of a rotated query and a rotated key depends only on their distance.
//
//   angle(n, p) = n[axis(p)] * inv_freq[p]                        p = 0 .. rotary_dim/2 - 1
//   (x, y) -> a (x cos - y sin, x sin + y cos)                    a the schedule's attention factor
//
//   layout=half:         pair p is channels (p, p + rotary_dim/2)    Hugging Face's Llama, GPT-NeoX
//   layout=interleaved:  pair p is channels (2p, 2p + 1)             RoFormer, GPT-J, Meta's Llama
//
// Channels dim_offset .. dim_offset + rotary_dim - 1 are rotated; the others do not change.
// inverse=true rotates by the negative angle (the transpose, which is also the gradient).
// Angles come from positions or from the content of the tokens:
//
//   angles=input:           the input `angles` has an angle per pair and token
//   angles=input_position:  the input `position` has a real-valued position per token, multiplied by the frequencies
//   running=true:           the input holds increments; their cumulative sum over the sequence (float64) is used
//
// values=true also rotates values, and rotates the output back: o_i = SUM_j p_ij R(j - i) v_j, without the factor a.
// theta is one number, or a list for groups of heads with different frequencies: with n numbers, head
// h of H uses number h*n/H.
//
// Su et al. 2021, "RoFormer", arXiv 2104.09864, equations 14 and 34. Angles from content: Selective RoPE, arXiv 2511.17388;
// MapFormer, arXiv 2511.19279; CARoPE, arXiv 2507.23083.
// Inputs: angles [B, Hkv, Tk, rotary_dim/2] or position [B, Hkv, Tk, 1], float32; a query reads the row of its own token.
#pragma once

#include "posenc/encodings/axes.h"
#include "posenc/encodings/schedule.h"

namespace posenc {

enum class PairLayout { kHalf, kInterleaved };
constexpr std::array<std::string_view, 2> enum_names(PairLayout /*tag*/) {
  return {"half", "interleaved"};
}

struct Rope {
  enum class Angles { kPosition, kInput, kInputPosition };
  friend constexpr std::array<std::string_view, 3> enum_names(Angles /*tag*/) {
    return {"position", "input", "input_position"};
  }

  std::vector<double> theta = {10000.0};
  PairLayout layout = PairLayout::kHalf;
  std::int64_t rotary_dim = 0;
  std::int64_t dim_offset = 0;
  bool inverse = false;
  Schedule schedule = {};
  Axes axes = {};
  Precision precision = Precision::kExact;
  Angles angles = Angles::kPosition;
  bool running = false;
  bool values = false;

  [[nodiscard]] bool reads_input() const { return angles != Angles::kPosition; }
  [[nodiscard]] bool follows_length(const Lengths& lengths) const {
    return posenc::follows_length(schedule, lengths);
  }
  [[nodiscard]] Rope at(const Lengths& lengths) const;

  static constexpr Traits kTraits{
      .name = "rope",
      .site = Site::kQueryKey,
      .title = "rotary position embedding",
      .formula = "q'_i = R(i) q_i, k'_j = R(j) k_j; <q'_i, k'_j> depends on i - j",
      .tex = R"(q'_n = R(n)\,q_n,\quad R(n)\big|_{\text{pair } p} = )"
             R"(\begin{pmatrix}\cos n\omega_p & -\sin n\omega_p\\ )"
             R"(\sin n\omega_p & \cos n\omega_p\end{pmatrix},\quad )"
             R"(\langle q'_i, k'_j\rangle = q_i^{\top} R(j - i)\,k_j)",
      .where =
          "Every pair of channels is rotated by the position times its frequency ω, so a "
          "product depends on the distance alone.",
      .paper = "Su et al. 2021, arXiv 2104.09864",
      .relative = true,
      .extrapolates = true,
      .linear_attention = true,
  };
  // Rules of fields that xPos has too.
  static constexpr FieldRule kLayoutRule{.doc = "which channels make a pair", .advanced = true};
  static constexpr FieldRule kRotaryDimRule{
      .doc = "channels that are rotated; 0 means all from dim_offset on",
      .min = 0,
      .max = 1 << 20,
      .even = true,
      .advanced = true,
      .usual = {0, 64}};
  static constexpr FieldRule kDimOffsetRule{.doc = "first channel that is rotated",
                                            .min = 0,
                                            .max = 1 << 20,
                                            .advanced = true,
                                            .usual = {0, 64}};
  static constexpr FieldRule kPrecisionRule{
      .doc = "angles in float64, or rounded to float32 as in Hugging Face", .advanced = true};
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("theta", self.theta,
          rule_above("base of the frequencies; a list has one per group of heads", 1, 1e30,
                     log_range(100, 1e7)));
    visit("layout", self.layout, kLayoutRule);
    visit("rotary_dim", self.rotary_dim, kRotaryDimRule);
    visit("dim_offset", self.dim_offset, kDimOffsetRule);
    visit("inverse", self.inverse,
          FieldRule{.doc = "rotate by the negative angle", .advanced = true});
    visit("schedule", self.schedule, FieldRule{.doc = "how frequencies depend on the length"});
    visit("axes", self.axes, FieldRule{.doc = "coordinates of a position", .advanced = true});
    visit("precision", self.precision, kPrecisionRule);
    visit("angles", self.angles,
          FieldRule{.doc = "source of the angles: positions, or an input", .advanced = true});
    visit("running", self.running,
          FieldRule{.doc = "the input holds increments; angles are their sums", .advanced = true});
    visit("values", self.values,
          FieldRule{.doc = "also rotate values, and outputs back", .advanced = true});
  }
  bool operator==(const Rope&) const = default;
};

void validate(const Rope& config, const ModelShape& shape);
// The learnable schedule has one parameter, `alpha`, with one value per pair; the others have none.
std::vector<ParameterInfo> parameters(const Rope& config, const ModelShape& shape);
std::vector<InputInfo> token_inputs(const Rope& config, const ModelShape& shape);

}  // namespace posenc

// SPDX-License-Identifier: MIT
