#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "draw/markup.h"
#include "draw/svg_panel.h"

namespace posenc::draw {
namespace {

constexpr std::size_t kMostHits = 80;  // points of a curve that answer to a pointer

std::vector<Point> pixels(const std::vector<double>& x, const std::vector<double>& y,
                          const PanelScales& scales) {
  std::vector<Point> out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back({scales.x(x[i]), scales.y(y[i])});
  return out;
}

// The value holds until the next point.
std::vector<Point> stairs(const std::vector<Point>& points) {
  std::vector<Point> out;
  for (const Point& p : points) {
    if (!out.empty()) out.push_back({p.x, out.back().y});
    out.push_back(p);
  }
  return out;
}

void paint_band(SvgCanvas& canvas, const Curve& curve, const PanelScales& scales) {
  if (curve.low.empty()) return;
  std::vector<Point> edge;
  std::vector<Point> back;
  for (std::size_t i = 0; i < curve.x.size(); ++i) {
    if (!std::isfinite(curve.low[i]) || !std::isfinite(curve.high[i])) continue;
    edge.push_back({scales.x(curve.x[i]), scales.y(curve.high[i])});
    back.push_back({scales.x(curve.x[i]), scales.y(curve.low[i])});
  }
  edge.insert(edge.end(), back.rbegin(), back.rend());
  canvas.path(polygon(edge), fmt::format("pe-band pe-f{}", curve.color % kPaletteSize));
}

void paint_whiskers(SvgCanvas& canvas, const Curve& curve, const PanelScales& scales) {
  for (std::size_t i = 0; i < curve.low.size(); ++i) {
    if (!std::isfinite(curve.low[i]) || !std::isfinite(curve.high[i])) continue;
    const double x = scales.x(curve.x[i]);
    canvas.line({x, scales.y(curve.low[i])}, {x, scales.y(curve.high[i])},
                fmt::format("pe-whisker pe-s{}", curve.color % kPaletteSize));
  }
}

void paint_bars(SvgCanvas& canvas, const std::vector<Point>& points, const Curve& curve,
                double base, double width) {
  for (const Point& p : points) {
    if (!std::isfinite(p.y)) continue;
    const Box bar{p.x - width / 2, std::min(p.y, base), width, std::abs(p.y - base)};
    canvas.rect(bar, fmt::format("pe-bar pe-f{}", curve.color % kPaletteSize));
  }
}

double bar_width(const std::vector<Point>& points, double area_width) {
  double closest = area_width / 4;
  for (std::size_t i = 1; i < points.size(); ++i) {
    closest = std::min(closest, std::abs(points[i].x - points[i - 1].x));
  }
  return closest * 0.7;
}

std::string named(const Panel& panel, const Curve& curve, std::size_t i) {
  const auto word = static_cast<std::size_t>(std::max(0.0, curve.x[i]));
  const std::string x = word < panel.x.words.size() ? panel.x.words[word] : tick_text(curve.x[i]);
  std::string text =
      fmt::format("{}{}: {:.5g}", curve.name.empty() ? "" : curve.name + ", ", x, curve.y[i]);
  if (!curve.low.empty()) text += fmt::format(" ({:.4g} to {:.4g})", curve.low[i], curve.high[i]);
  return text;
}

void paint_points(SvgCanvas& canvas, const Panel& panel, const Curve& curve,
                  const std::vector<Point>& points) {
  const bool dots = curve.stroke == Stroke::kDots || curve.stroke == Stroke::kDotsAndLine;
  if (!dots && points.size() > kMostHits) return;
  const std::string color = fmt::format("pe-dot pe-f{}", curve.color % kPaletteSize);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!std::isfinite(points[i].x) || !std::isfinite(points[i].y)) continue;
    const std::string name = named(panel, curve, i);
    dots ? canvas.path(mark(curve.color, points[i], 3.2), color, name)
         : canvas.circle(points[i], 6.0, "pe-hit", name);
  }
}

// Only a legend tells what dashes mean: curves without a name are solid.
std::string class_of(const Curve& curve) {
  const bool solid = curve.name.empty() && curve.stroke != Stroke::kDashed;
  return solid ? fmt::format("pe-line pe-s{}", curve.color % kPaletteSize)
               : stroke_class(curve.color, curve.stroke);
}

void paint_curve(SvgCanvas& canvas, const Panel& panel, const Curve& curve, const Box& area,
                 const PanelScales& scales) {
  const std::vector<Point> points = pixels(curve.x, curve.y, scales);
  curve.whiskers ? paint_whiskers(canvas, curve, scales) : paint_band(canvas, curve, scales);
  switch (curve.stroke) {
    case Stroke::kBars:
      paint_bars(canvas, points, curve, std::clamp(scales.y(0.0), area.y, area.bottom()),
                 bar_width(points, area.width));
      break;
    case Stroke::kSteps:
      canvas.path(polyline(stairs(points)), class_of(curve));
      break;
    case Stroke::kDots:
      break;
    case Stroke::kSolid:
    case Stroke::kDashed:
    case Stroke::kDotsAndLine:
      canvas.path(polyline(points), class_of(curve));
      break;
  }
  paint_points(canvas, panel, curve, points);
}

}  // namespace

void paint_curves(SvgCanvas& canvas, const Panel& panel, const PanelPlace& place,
                  const std::string& clip_id) {
  const PanelScales scales = scales_of(panel, place);
  canvas.open("pe-curves", fmt::format(" clip-path=\"url(#{})\"", clip_id));
  for (const Curve& curve : panel.curves) {
    canvas.open("pe-series", fmt::format(" data-name=\"{}\"", escaped(curve.name)));
    paint_curve(canvas, panel, curve, place.area, scales);
    canvas.close();
  }
  canvas.close();
}

}  // namespace posenc::draw
