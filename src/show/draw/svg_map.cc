#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/color_png.h"
#include "draw/files.h"
#include "draw/pool.h"
#include "draw/svg_panel.h"

namespace posenc::draw {
namespace {

constexpr std::int64_t kMostCells = 1024;  // per side: more than is visible at 100 %

// A look that is fixed is what librsvg paints, which smooths small images: its cells come large.
std::int64_t zoom_of(const Heatmap& map, Look look) {
  return look == Look::kAuto
             ? 1
             : std::max<std::int64_t>(1, kMostCells / std::max(map.rows, map.columns));
}

void paint_image(SvgCanvas& canvas, const Box& box, const Heatmap& map, Look look) {
  const bool two = look == Look::kAuto && map.map == ColorMap::kDiverging;
  const Theme theme = look == Look::kDark ? Theme::kDark : Theme::kLight;
  canvas.png(box, base64(color_png(map, theme, zoom_of(map, look))),
             two ? "pe-on-light" : "pe-map");
  if (two) canvas.png(box, base64(color_png(map, Theme::kDark)), "pe-on-dark");
}

// The colours of the values from low to high, painted as a map of one column.
Heatmap ramp(const Heatmap& map, Range shown) {
  const Range range = value_range(map);
  Heatmap out;
  out.rows = 256;
  out.columns = 1;
  out.map = map.map;
  out.low = range.low;
  out.high = range.high;
  for (int i = 0; i < 256; ++i) {
    out.values.push_back(static_cast<float>(std::lerp(shown.high, shown.low, i / 255.0)));
  }
  return out;
}

void paint_scale(SvgCanvas& canvas, const Heatmap& map, const PanelPlace& place, Look look) {
  const Range shown = shown_range(map);
  const Box& area = place.area;
  const Box bar{area.right() + 12, area.y, kScaleWidth, area.height};
  paint_image(canvas, bar, ramp(map, shown), look);
  const Scale scale({}, shown, bar.bottom(), bar.y);
  for (const Tick& t : place.scale_ticks) {
    canvas.line({bar.right(), scale(t.at)}, {bar.right() + 3, scale(t.at)}, "pe-axis");
    canvas.text({bar.right() + 6, scale(t.at) + 4}, t.text,
                {.classes = "pe-soft", .size = kTickSize});
  }
  if (map.label.empty()) return;
  canvas.text({bar.right() + place.scale_ticks_width + 18, area.y + area.height / 2}, map.label,
              {.anchor = "middle", .size = label_size(map.label, area.height), .turn = -90});
}

// Row 0 belongs on the side where y begins.
Heatmap upright(const Panel& panel, Heatmap map) {
  const bool flip = (map.y_step > 0) != panel.y_down;
  if (!flip) return map;
  for (std::int64_t r = 0; r < map.rows / 2; ++r) {
    std::swap_ranges(map.values.begin() + r * map.columns,
                     map.values.begin() + (r + 1) * map.columns,
                     map.values.begin() + (map.rows - 1 - r) * map.columns);
  }
  return map;
}

}  // namespace

void paint_map(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place, Look look,
               const std::string& hatch_id) {
  const Heatmap& map = *panel.map;
  const PanelScales scales = scales_of(panel, place);
  const double x0 = scales.x(map.x_begin - map.x_step / 2);
  const double x1 = scales.x(map.x_begin + map.x_step * (static_cast<double>(map.columns) - 0.5));
  const double y0 = scales.y(map.y_begin - map.y_step / 2);
  const double y1 = scales.y(map.y_begin + map.y_step * (static_cast<double>(map.rows) - 0.5));
  Heatmap shown = pooled(map, kMostCells, kMostCells);
  const Range range = value_range(map);
  shown.low = range.low;
  shown.high = range.high;
  const Box box{std::min(x0, x1), std::min(y0, y1), std::abs(x1 - x0), std::abs(y1 - y0)};
  if (has_masked(map)) canvas.hatch(hatch_id, box);  // masked cells of the image are clear
  paint_image(canvas, box, upright(panel, std::move(shown)), look);
  paint_scale(canvas, map, place, look);
}

}  // namespace posenc::draw
