// Axes: which coordinate of a position each rotated pair uses.
//
// A token of an image or a video has a position per axis (row, column; time, height, width). The
// angle of each rotated pair depends on one of them:
//
//   single             one position for all pairs
//   axial              consecutive blocks of pairs, one per axis; each block has its own full set of
//                      frequencies (images: half the pairs use the row, half the column)
//   mrope              one set of frequencies over all pairs; consecutive sections of pairs use
//                      axis 0, 1, 2, ...                     Qwen2-VL, arXiv 2409.12191
//   mrope_interleaved  one set of frequencies; with n axes, axis a >= 1 uses pairs a, a+n, a+2n, ...
//                      below n * sections[a], axis 0 the others          Qwen3-VL
#pragma once

#include <variant>

#include "posenc/encodings/common.h"

namespace posenc {

struct SingleAxis {
  static constexpr Traits kTraits{
      .name = "single",
      .title = "one position per token",
      .tex = R"(\varphi_p = \omega_p\, n)",
      .where = "One position n per token.",
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& /*self*/, Visitor&& /*visit*/) {}
  bool operator==(const SingleAxis&) const = default;
};

struct AxialAxes {
  std::int64_t axes = 0;
  std::vector<std::int64_t> sections;

  static constexpr Traits kTraits{
      .name = "axial",
      .title = "a block of pairs per axis",
      .tex = R"(\varphi_p = \omega_{p - b_a}\, n_a,\qquad p \in \text{block } a)",
      .where = "Pairs in blocks, one per coordinate, each with frequencies of its own.",
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("axes", self.axes,
          rule_between("how many; 0 means one per section, or 2", 0, 16, {0, 4}));
    visit("sections", self.sections,
          FieldRule{.doc = "pairs per axis; an even split where absent", .min = 1, .max = 1 << 20});
  }
  bool operator==(const AxialAxes&) const = default;
};

struct MropeAxes {
  std::vector<std::int64_t> sections;

  static constexpr Traits kTraits{
      .name = "mrope",
      .title = "M-RoPE, sections in chunks",
      .tex = R"(\varphi_p = \omega_p\, n_{a(p)},\qquad a(p) = \text{section of } p)",
      .where =
          "One set of frequencies; consecutive sections of pairs follow time, height and "
          "width.",
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("sections", self.sections,
          FieldRule{.doc = "pairs per axis, such as [16, 24, 24]",
                    .min = 0,
                    .max = 1 << 20,
                    .required = true,
                    .example = "[1, 1, 1]",
                    .pairs = Pairs::kSum});
  }
  bool operator==(const MropeAxes&) const = default;
};

struct MropeInterleavedAxes {
  std::vector<std::int64_t> sections;

  static constexpr Traits kTraits{
      .name = "mrope_interleaved",
      .title = "M-RoPE, sections interleaved",
      .tex = R"(\varphi_p = \omega_p\, n_{a(p)},\qquad )"
             R"(a(p) = p \bmod 3 \text{ within the sections})",
      .where = "Like mrope, with the pairs of the coordinates interleaved.",
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("sections", self.sections,
          FieldRule{.doc = "pairs per axis, such as [24, 20, 20]",
                    .min = 0,
                    .max = 1 << 20,
                    .required = true,
                    .example = "[1, 1, 1]",
                    .pairs = Pairs::kSum});
  }
  bool operator==(const MropeInterleavedAxes&) const = default;
};

using Axes = std::variant<SingleAxis, AxialAxes, MropeAxes, MropeInterleavedAxes>;

struct AxisPlan {
  std::int64_t axes = 1;
  std::vector<std::int32_t> axis_of_pair;
  // Sizes of the consecutive blocks of pairs that each have their own set of frequencies; they sum to
  // the number of pairs.
  std::vector<std::int64_t> frequency_blocks;
};

// Throws Error if the sections do not sum to the number of pairs.
AxisPlan plan_axes(const Axes& axes, std::int64_t pairs);

}  // namespace posenc

// SPDX-License-Identifier: MIT
