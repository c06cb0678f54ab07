#include <fmt/format.h>

#include <cmath>

#include "draw/svg_panel.h"

namespace posenc::draw {
namespace {

Point on_rim(Point centre, double radius, double angle) {
  return {centre.x + radius * std::cos(angle), centre.y - radius * std::sin(angle)};
}

void paint_clock(SvgCanvas& canvas, const Clock& clock, Point centre, double radius) {
  const std::string color = clock.muted ? "pe-muted" : "pe-s0";
  canvas.circle(centre, radius, "pe-rim", fmt::format("{}: {:.5g} rad", clock.label, clock.angle));
  std::vector<Point> trail;
  for (const double angle : clock.trail) trail.push_back(on_rim(centre, radius * 0.86, angle));
  canvas.path(polyline(trail), "pe-trail " + color);
  canvas.line(centre, on_rim(centre, radius * clock.length, clock.angle), "pe-hand " + color);
  canvas.text({centre.x, centre.y + radius + 12}, clock.label,
              {.classes = "pe-soft", .anchor = "middle", .size = 10});
}

}  // namespace

void paint_clocks(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place) {
  const std::int64_t columns = clocks_in_row(panel, place.area.width);
  const double cell = place.area.width / static_cast<double>(columns);
  const double radius = cell * 0.42;
  std::int64_t i = 0;
  for (const Clock& clock : panel.clocks) {
    const auto column = static_cast<double>(i % columns);
    const auto row = static_cast<double>(i / columns);
    paint_clock(
        canvas, clock,
        {place.area.x + (column + 0.5) * cell, place.area.y + row * (cell + 16.0) + cell / 2},
        radius);
    ++i;
  }
}

}  // namespace posenc::draw
