#include "draw/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "posenc/core/error.h"

namespace posenc::draw {
namespace {

[[noreturn]] void refuse(const Panel& panel, const std::string& key, const std::string& rule,
                         const std::string& value) {
  throw Error(ErrorKind::kConflict, {.scope = "figure",
                                     .key = fmt::format("panel '{}': {}", panel.title, key),
                                     .rule = rule,
                                     .value = value,
                                     .hint = ""});
}

void check_axis(const Panel& panel, const Axis& axis, const char* name, Range range) {
  if (!std::isfinite(range.low) || !std::isfinite(range.high)) {
    refuse(panel, name, "must have finite limits", fmt::format("{} to {}", range.low, range.high));
  }
  if (axis.log && range.low <= 0) {
    refuse(panel, name, "is logarithmic and must be above 0", fmt::format("{}", range.low));
  }
}

void check_curve(const Panel& panel, const Curve& curve) {
  const auto fits = [&](const std::vector<double>& list, bool may_be_empty) {
    return list.size() == curve.x.size() || (may_be_empty && list.empty());
  };
  if (!fits(curve.y, false) || !fits(curve.low, true) || !fits(curve.high, true) ||
      curve.low.size() != curve.high.size()) {
    refuse(panel, fmt::format("curve '{}'", curve.name), "must have as many y, low and high as x",
           fmt::format("{} x, {} y, {} low, {} high", curve.x.size(), curve.y.size(),
                       curve.low.size(), curve.high.size()));
  }
}

void check_map(const Panel& panel, const Heatmap& map) {
  const bool fits = map.rows > 0 && map.columns > 0 &&
                    map.values.size() == static_cast<std::size_t>(map.rows * map.columns);
  if (!fits) {
    refuse(panel, "map", "must have rows * columns values",
           fmt::format("{} for {} x {}", map.values.size(), map.rows, map.columns));
  }
}

// Grows with what it is shown; numbers that are not finite do not count.
class Extent {
 public:
  void show(double value) {
    if (!std::isfinite(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  void show(const std::vector<double>& values) {
    for (const double v : values) show(v);
  }
  [[nodiscard]] bool empty() const { return low_ > high_; }
  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }

 private:
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

Range widened(double low, double high, const Axis& axis) {
  if (axis.low) low = *axis.low;
  if (axis.high) high = *axis.high;
  if (low < high) return {low, high};
  if (axis.log) return {low / 2, low * 2};
  const double margin = low == 0.0 ? 1.0 : std::abs(low) * 0.5;
  return {low - margin, low + margin};
}

Range range_of(const Extent& extent, const Axis& axis, bool margin) {
  if (extent.empty()) return widened(0.0, 1.0, axis);
  double low = extent.low();
  double high = extent.high();
  if (margin && !axis.log) {
    const double room = (high - low) * 0.04;
    low -= room;
    high += room;
  }
  return widened(low, high, axis);
}

void show_cells(Extent& extent, double begin, double step, std::int64_t count) {
  extent.show(begin - step / 2);
  extent.show(begin + step * (static_cast<double>(count) - 0.5));
}

// Bars are as wide as the closest two allow, so the outer ones reach half of that further.
void show_bars(Extent& extent, const Curve& curve, bool log) {
  if (curve.stroke != Stroke::kBars || curve.x.size() < 2) return;
  const double first = log ? std::sqrt(curve.x[0] / curve.x[1]) : (curve.x[0] - curve.x[1]) / 2;
  const std::size_t n = curve.x.size();
  const double last =
      log ? std::sqrt(curve.x[n - 1] / curve.x[n - 2]) : (curve.x[n - 1] - curve.x[n - 2]) / 2;
  extent.show(log ? curve.x[0] * first : curve.x[0] + first);
  extent.show(log ? curve.x[n - 1] * last : curve.x[n - 1] + last);
}

}  // namespace

Range x_range(const Panel& panel) {
  Extent extent;
  for (const Curve& c : panel.curves) {
    extent.show(c.x);
    show_bars(extent, c, panel.x.log);
  }
  if (panel.map) show_cells(extent, panel.map->x_begin, panel.map->x_step, panel.map->columns);
  return range_of(extent, panel.x, panel.square && !panel.map);
}

Range y_range(const Panel& panel) {
  Extent extent;
  for (const Curve& c : panel.curves) {
    extent.show(c.y);
    extent.show(c.low);
    extent.show(c.high);
    if (c.stroke == Stroke::kBars && !panel.y.log) extent.show(0.0);
  }
  if (panel.map) show_cells(extent, panel.map->y_begin, panel.map->y_step, panel.map->rows);
  return range_of(extent, panel.y, !panel.map);
}

Range shown_range(const Heatmap& map) {
  Extent extent;
  for (const float v : map.values) extent.show(v);
  if (extent.empty()) extent.show(0.0);
  const Range range{map.low.value_or(extent.low()), map.high.value_or(extent.high())};
  return range.low < range.high ? range : Range{range.low, range.low + 1.0};
}

Range value_range(const Heatmap& map) {
  const Range shown = shown_range(map);
  if (map.map != ColorMap::kDiverging || map.low || map.high) return shown;
  const double end = std::max(std::abs(shown.low), std::abs(shown.high));
  return {-end, end};
}

bool has_masked(const Heatmap& map) {
  return std::any_of(map.values.begin(), map.values.end(), [](float v) { return std::isnan(v); });
}

void validate(const Figure& figure) {
  for (const Panel& panel : figure.panels) {
    if (!panel.clocks.empty()) continue;
    for (const Curve& curve : panel.curves) check_curve(panel, curve);
    if (panel.map) check_map(panel, *panel.map);
    check_axis(panel, panel.x, "x axis", x_range(panel));
    check_axis(panel, panel.y, "y axis", y_range(panel));
  }
}

}  // namespace posenc::draw
