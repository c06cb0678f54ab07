#include "plots/panels.h"

#include <cmath>

namespace posenc::plots {

double finite_or_hidden(double value) {
  const bool fits = std::abs(value) <= std::numeric_limits<float>::max();
  return fits ? value : kHidden;
}

draw::Heatmap map_of(std::int64_t rows, std::int64_t columns, draw::ColorMap map, std::string label,
                     const std::function<double(std::int64_t, std::int64_t)>& value) {
  draw::Heatmap result;
  result.rows = rows;
  result.columns = columns;
  result.map = map;
  result.label = std::move(label);
  result.values.reserve(rows * columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      result.values.push_back(static_cast<float>(finite_or_hidden(value(r, c))));
    }
  }
  const draw::Range shown = draw::shown_range(result);
  const bool signs = shown.low < 0.0 && shown.high > 0.0;
  if (map == draw::ColorMap::kDiverging && !signs) result.map = draw::ColorMap::kSequential;
  return result;
}

draw::Panel matrix_panel(std::string title, draw::Heatmap map) {
  draw::Panel panel;
  panel.title = std::move(title);
  panel.x.label = "key position j (tokens)";
  panel.y.label = "query position i (tokens)";
  panel.y_down = true;
  panel.square = true;
  panel.map = std::move(map);
  return panel;
}

draw::Curve curve_over(std::string name, const std::vector<std::int64_t>& x,
                       const std::function<double(std::int64_t)>& y, int color) {
  draw::Curve curve;
  curve.name = std::move(name);
  curve.color = color;
  for (const std::int64_t n : x) {
    curve.x.push_back(static_cast<double>(n));
    curve.y.push_back(finite_or_hidden(y(n)));
  }
  return curve;
}

}  // namespace posenc::plots
