// What quality costs: a point per entry, with labels that do not cover each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/charts.h"

namespace posenc::report {
namespace {

// Labels next to points, moved down where they would cover each other. Pixels are those of the panel.
void add_labels(draw::Panel& panel, double width, double height) {
  const draw::Range x = draw::x_range(panel);
  const draw::Range y = draw::y_range(panel);
  struct Label {
    double left, top;
    std::string text;
  };
  std::vector<Label> labels;
  for (const draw::Curve& curve : panel.curves) {
    labels.push_back({(curve.x[0] - x.low) / (x.high - x.low) * width,
                      (y.high - curve.y[0]) / (y.high - y.low) * height, curve.name});
  }
  std::sort(labels.begin(), labels.end(),
            [](const Label& a, const Label& b) { return a.top < b.top; });
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double room = text_width(labels[j].text);
      const double own = text_width(labels[i].text);
      const bool apart =
          labels[i].left > labels[j].left + room || labels[j].left > labels[i].left + own;
      if (!apart && labels[i].top < labels[j].top + 13) labels[i].top = labels[j].top + 13;
    }
    const Label& label = labels[i];
    panel.notes.push_back({x.low + label.left / width * (x.high - x.low),
                           y.high - label.top / height * (y.high - y.low), label.text});
  }
}

struct CostAxis {
  std::string label;
  double (*of)(const Entry&);
};

std::optional<draw::Curve> cost_point(const TaskTable& table, const Entry& entry, double cost,
                                      bool beyond) {
  if (cost <= 0.0) return std::nullopt;
  draw::Curve point{.name = series_name(table, entry), .x = {cost}, .stroke = draw::Stroke::kDots};
  if (beyond) {
    const auto value = beyond_training(table, entry);
    if (!value || !std::isfinite(*value)) return std::nullopt;
    point.y = {drawn(*value, table.metric)};
    return point;
  }
  const Cell* cell = entry.cell(kInDomain, 1);
  if (cell == nullptr) return std::nullopt;
  const RegionFigure& figure = cell->headline();
  if (!std::isfinite(figure.mean)) return std::nullopt;
  point.y = {drawn(figure.mean, table.metric)};
  if (!figure.interval) return point;
  point.low = {drawn(figure.interval->low, table.metric)};
  point.high = {drawn(figure.interval->high, table.metric)};
  point.whiskers = true;
  return point;
}

// About the points, with room at the right for their labels; whiskers may leave the panel.
void choose_ranges(draw::Panel& panel, double width) {
  draw::Panel points;
  for (const draw::Curve& curve : panel.curves) {
    points.curves.push_back({.x = curve.x, .y = curve.y});
  }
  const draw::Range x = draw::x_range(points);
  const draw::Range y = draw::y_range(points);
  const double low = x.low - 0.06 * (x.high - x.low);
  double high = x.high;
  for (const draw::Curve& curve : panel.curves) {
    const double label = std::min(0.6 * width, 12.0 + text_width(curve.name));
    high = std::max(high, low + (curve.x[0] - low) * width / (width - label));
  }
  panel.x.low = std::max(0.0, low);
  panel.x.high = high;
  panel.y.low = y.low - 0.15 * (y.high - y.low);
  panel.y.high = y.high + 0.15 * (y.high - y.low);
}

std::optional<draw::Panel> cost_panel(const TaskTable& table, const SeriesColors& colors,
                                      const CostAxis& axis, bool beyond, double width) {
  draw::Panel panel;
  panel.x.label = axis.label;
  panel.y = metric_axis(table.metric, beyond ? "beyond training" : "in domain");
  for (const Entry& entry : table.entries) {
    auto point = cost_point(table, entry, axis.of(entry), beyond);
    if (!point) continue;
    point->color = colors.of(point->name);
    panel.curves.push_back(std::move(*point));
  }
  if (panel.curves.empty()) return std::nullopt;
  choose_ranges(panel, width);
  return panel;
}

}  // namespace

std::optional<draw::Figure> cost_figure(const TaskTable& table, const SeriesColors& colors) {
  const CostAxis axes[] = {
      {"training speed (tokens/s)", [](const Entry& e) { return e.tokens_per_s; }},
      {"peak memory (MiB)", [](const Entry& e) { return e.peak_memory_bytes / (1 << 20); }}};
  draw::Figure figure{.title = fmt::format("{}: quality against cost", table.task)};
  figure.columns = 2;
  figure.panel_width = 420.0;
  figure.panel_height = 250.0;
  for (const bool beyond : {false, true}) {
    for (const CostAxis& axis : axes) {
      auto panel = cost_panel(table, colors, axis, beyond, figure.panel_width);
      if (!panel) continue;
      add_labels(*panel, figure.panel_width, figure.panel_height);
      figure.panels.push_back(std::move(*panel));
    }
  }
  if (figure.panels.empty()) return std::nullopt;
  return figure;
}

}  // namespace posenc::report
