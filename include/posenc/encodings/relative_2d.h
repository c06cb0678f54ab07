// Relative bias in two dimensions (site 3): a learned scalar per head and (row, column) distance between image tokens.
//
//   full:       B(h, i, j) = weight[h, clip(y_i - y_j), clip(x_i - x_j)]
//   separable:  B(h, i, j) = rows[h, clip(y_i - y_j)] + columns[h, clip(x_i - x_j)]
//
// Row distances are clipped to [-(height - 1), height - 1] and column distances to [-(width - 1), width - 1]. Positions
// with two coordinates are (y, x). A single coordinate n, or the index of a token if no positions are given, means patch
// n of an image with `width` columns: y = floor(n / width), x = n - y width.
//
// Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", arXiv 2103.14030,
// section 3.2.
// Parameters: weight [heads, 2 height - 1, 2 width - 1]; or rows [heads, 2 height - 1] and columns [heads, 2 width - 1].
#pragma once

#include <algorithm>
#include <span>

#include "posenc/encodings/common.h"

namespace posenc {

struct Relative2d {
  std::int64_t height = 14;
  std::int64_t width = 14;
  bool separable = false;
  double init_std = 0.0;

  static constexpr Traits kTraits{
      .name = "relative_2d",
      .site = Site::kBias,
      .title = "learned 2D relative bias",
      .formula = "B = weight[h, clip(y_i - y_j), clip(x_i - x_j)]",
      .tex = R"(B(h, i, j) = W_{h,\;\mathrm{clip}(y_i - y_j),\;\mathrm{clip}(x_i - x_j)})",
      .where =
          "A trained number per head and pair of distances on a grid of height times width; "
          "separable: one per row distance plus one per column distance.",
      .paper = "Liu et al. 2021, arXiv 2103.14030",
      .relative = false,  // only with two coordinates: shifting one moves patches to other rows
      .extrapolates = true,
      .linear_attention = false,
  };
  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("height", self.height,
          rule_between("rows of the grid; farther tokens share the last entry", 1, 4096,
                       log_range(2, 64)));
    visit("width", self.width,
          rule_between("columns of the grid, and of an image whose tokens have one position", 1,
                       4096, log_range(2, 64)));
    visit("separable", self.separable,
          FieldRule{.doc = "a table per axis instead of one for both"});
    visit("init_std", self.init_std, kInitStdRule);
  }

  static constexpr bool kReadsPlane = true;

  struct Point {
    std::int64_t y;
    std::int64_t x;
  };
  // The grid point of a position with one or two coordinates.
  [[nodiscard]] Point point(std::span<const std::int64_t> position) const {
    if (position.size() > 1) return {position[0], position[1]};
    const std::int64_t n = position[0];
    const std::int64_t y = (n < 0 ? n - width + 1 : n) / width;
    return {y, n - y * width};
  }
  [[nodiscard]] std::int64_t row_entries() const { return 2 * height - 1; }
  [[nodiscard]] std::int64_t column_entries() const { return 2 * width - 1; }
  [[nodiscard]] std::int64_t row_entry(std::int64_t distance) const {
    return std::clamp(distance, 1 - height, height - 1) + height - 1;
  }
  [[nodiscard]] std::int64_t column_entry(std::int64_t distance) const {
    return std::clamp(distance, 1 - width, width - 1) + width - 1;
  }
  // Indices into the parameters for a head, a query point and a key point.
  struct Entries {
    std::size_t first;
    std::size_t second;  // separable only
  };
  [[nodiscard]] Entries entries(std::int64_t head, const Point& query, const Point& key) const {
    const std::int64_t row = row_entry(query.y - key.y);
    const std::int64_t column = column_entry(query.x - key.x);
    if (separable) {
      return {static_cast<std::size_t>(head * row_entries() + row),
              static_cast<std::size_t>(head * column_entries() + column)};
    }
    return {static_cast<std::size_t>((head * row_entries() + row) * column_entries() + column), 0};
  }

  bool operator==(const Relative2d&) const = default;
};

void validate(const Relative2d& config, const ModelShape& shape);
std::vector<ParameterInfo> parameters(const Relative2d& config, const ModelShape& shape);

inline double bias(const Relative2d& config, const Parameters& parameters, std::int64_t head,
                   const Relative2d::Point& query, const Relative2d::Point& key) {
  const Relative2d::Entries at = config.entries(head, query, key);
  return parameters[0][at.first] + (config.separable ? parameters[1][at.second] : 0.0);
}
inline void add_bias_gradient(const Relative2d& config, std::int64_t head,
                              const Relative2d::Point& query, const Relative2d::Point& key,
                              double dbias, Parameters& gradient) {
  const Relative2d::Entries at = config.entries(head, query, key);
  gradient[0][at.first] += dbias;
  if (config.separable) gradient[1][at.second] += dbias;
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
