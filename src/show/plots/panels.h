// Small parts that several kinds of figures are made of.
#pragma once

#include <functional>

#include "draw/figure.h"

namespace posenc::plots {

inline constexpr double kHidden = std::numeric_limits<double>::quiet_NaN();

// The value, or kHidden where it is not finite or too large to paint.
double finite_or_hidden(double value);

inline constexpr const char* kKeyAfterQuery = "masked: key after the query";

// A map whose cell (row, column) is value(row, column); kHidden where it is masked. A diverging map without values on
// both sides of 0 becomes a sequential one, so that its colours are used.
draw::Heatmap map_of(std::int64_t rows, std::int64_t columns, draw::ColorMap map, std::string label,
                     const std::function<double(std::int64_t, std::int64_t)>& value);

// Query positions down, key positions along, row 0 on top.
draw::Panel matrix_panel(std::string title, draw::Heatmap map);

// A curve over whole numbers: positions, distances, pairs.
draw::Curve curve_over(std::string name, const std::vector<std::int64_t>& x,
                       const std::function<double(std::int64_t)>& y, int color);

}  // namespace posenc::plots
