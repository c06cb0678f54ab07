// A map as a PNG with the colours of its scale.
#pragma once

#include <cstdint>
#include <vector>

#include "draw/figure.h"

namespace posenc::draw {

// Which entry of the colour table a value has: 0 to 255, clamped to the range.
std::uint8_t shade_of(double value, Range range);

// Row 0 on top; masked cells are transparent. A cell is `zoom` pixels wide and high.
std::vector<std::uint8_t> color_png(const Heatmap& map, Theme theme, std::int64_t zoom = 1);

}  // namespace posenc::draw
