#include "draw/pool.h"

#include <algorithm>
#include <cmath>

namespace posenc::draw {
namespace {

// Cells of one side that a pooled cell covers: [first, last).
struct Stretch {
  std::int64_t first;
  std::int64_t last;
};
Stretch stretch(std::int64_t index, std::int64_t pooled, std::int64_t all) {
  return {index * all / pooled, (index + 1) * all / pooled};
}

float strongest(const Heatmap& map, Stretch rows, Stretch columns) {
  float best = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    for (std::int64_t c = columns.first; c < columns.last; ++c) {
      const float v = map.values[r * map.columns + c];
      if (!std::isnan(v) && !(std::abs(best) >= std::abs(v))) best = v;
    }
  }
  return best;
}

}  // namespace

Heatmap pooled(const Heatmap& map, std::int64_t most_rows, std::int64_t most_columns) {
  if (map.rows <= most_rows && map.columns <= most_columns) return map;
  Heatmap out = map;
  out.rows = std::min(map.rows, most_rows);
  out.columns = std::min(map.columns, most_columns);
  const double by_x = static_cast<double>(map.columns) / static_cast<double>(out.columns);
  const double by_y = static_cast<double>(map.rows) / static_cast<double>(out.rows);
  out.x_begin = map.x_begin + map.x_step * (by_x - 1) / 2;
  out.y_begin = map.y_begin + map.y_step * (by_y - 1) / 2;
  out.x_step = map.x_step * by_x;
  out.y_step = map.y_step * by_y;
  out.values.clear();
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.columns; ++c) {
      out.values.push_back(
          strongest(map, stretch(r, out.rows, map.rows), stretch(c, out.columns, map.columns)));
    }
  }
  return out;
}

}  // namespace posenc::draw
