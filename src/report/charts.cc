#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/words.h"

namespace posenc::report {
namespace {

constexpr double kPageWidth = 1000.0;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Accuracies are drawn in %, as tables say them.
double drawn(double value, const std::string& metric) {
  return metric == "accuracy" ? 100.0 * value : value;
}

draw::Axis metric_axis(const std::string& metric, const std::string& what = "") {
  draw::Axis axis;
  const std::string lead = what.empty() ? "" : what + ": ";
  if (metric == "accuracy") {
    axis.label = lead + "accuracy (%)";
    axis.low = 0.0;
    axis.high = 100.0;
  } else {
    axis.label = lead + metric_text(metric);
  }
  return axis;
}

draw::Curve length_curve(const TaskTable& table, const Entry& entry, const std::string& axis,
                         const std::string& schedule) {
  draw::Curve curve;
  curve.name = series_name(table, entry) + (schedule.empty() ? "" : " as " + schedule);
  curve.stroke = schedule.empty() ? draw::Stroke::kDotsAndLine : draw::Stroke::kDashed;
  for (const Cell& cell : entry.cells) {
    if (cell.axis != axis || cell.schedule != schedule) continue;
    const bool has = cell.n > 0;
    const auto shown = [&](double value) { return has ? drawn(value, table.metric) : kNaN; };
    curve.x.push_back(static_cast<double>(cell.length));
    curve.y.push_back(shown(cell.estimate.value));
    curve.low.push_back(shown(cell.estimate.interval.low));
    curve.high.push_back(shown(cell.estimate.interval.high));
  }
  return curve;
}

// The chance level at each length, a mean over entries, which differ by a little if at all.
draw::Curve chance_curve(const TaskTable& table, const std::string& axis) {
  draw::Curve curve{.name = "chance", .stroke = draw::Stroke::kDashed};
  for (const double factor : factors_of(table, axis)) {
    double sum = 0.0;
    double count = 0.0;
    double length = 0.0;
    for (const Entry& entry : table.entries) {
      const Cell* cell = entry.cell(axis, factor);
      if (cell == nullptr) continue;
      sum += cell->chance;
      count += 1.0;
      length = static_cast<double>(cell->length);
    }
    if (count == 0.0) continue;
    curve.x.push_back(length);
    curve.y.push_back(drawn(sum / count, table.metric));
  }
  return curve;
}

draw::Panel length_panel(const TaskTable& table, const std::string& axis,
                         const SeriesColors& colors) {
  draw::Panel panel{.title = fmt::format("axis {}", axis)};
  panel.x = {.label = "length (tokens)", .log = true, .base2 = true};
  panel.y = metric_axis(table.metric);
  const auto trained = static_cast<double>(table.train_lengths.back());
  panel.rules.push_back({trained, "trained"});
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry, axis)) {
      draw::Curve curve = length_curve(table, entry, axis, schedule);
      curve.color = colors.of(series_name(table, entry));
      panel.curves.push_back(std::move(curve));
    }
  }
  // Bits per byte have no chance level worth the name.
  if (table.metric != "bits_per_byte") panel.curves.push_back(chance_curve(table, axis));
  const draw::Range x = draw::x_range(panel);
  panel.x.low = x.low / 1.15;  // dots at the ends are whole
  panel.x.high = x.high * 1.15;
  return panel;
}

double label_width(const std::string& text) { return 6.4 * static_cast<double>(text.size()); }

// Labels beside points, moved down where they would cover each other. Pixels are those of the panel.
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
      const double room = label_width(labels[j].text);
      const double own = label_width(labels[i].text);
      const bool beside =
          labels[i].left > labels[j].left + room || labels[j].left > labels[i].left + own;
      if (!beside && labels[i].top < labels[j].top + 13) labels[i].top = labels[j].top + 13;
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
  point.y = {drawn(cell->estimate.value, table.metric)};
  point.low = {drawn(cell->estimate.interval.low, table.metric)};
  point.high = {drawn(cell->estimate.interval.high, table.metric)};
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
    const double label = std::min(0.6 * width, 12.0 + label_width(curve.name));
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

std::string series_name(const TaskTable& table, const Entry& entry) {
  const std::string& variant = table.variants[entry.variant].name;
  return variant.empty() ? entry.encoding : fmt::format("{} [{}]", entry.encoding, variant);
}

SeriesColors::SeriesColors(const Comparison& comparison) {
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      const std::string name = series_name(table, entry);
      if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    }
  }
}

int SeriesColors::of(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return static_cast<int>(found - names_.begin());
}

std::optional<double> beyond_training(const TaskTable& table, const Entry& entry) {
  double sum = 0.0;
  double count = 0.0;
  for (const std::string& axis : table.axes) {
    if (const auto value = extrapolation(table, entry, axis)) {
      sum += *value;
      count += 1.0;
    }
  }
  return count > 0.0 ? std::optional(sum / count) : std::nullopt;
}

std::optional<draw::Figure> length_figure(const TaskTable& table, const SeriesColors& colors) {
  if (table.axes.empty() || table.entries.empty()) return std::nullopt;
  draw::Figure figure;
  figure.title = fmt::format("{}: {} against length", table.task, metric_text(table.metric));
  figure.columns = std::min<std::int64_t>(3, std::ssize(table.axes));
  figure.panel_width = kPageWidth / static_cast<double>(figure.columns) - 75.0;
  figure.panel_width = std::min(figure.panel_width, 560.0);
  figure.panel_height = 260.0;
  for (const std::string& axis : table.axes) {
    figure.panels.push_back(length_panel(table, axis, colors));
  }
  return figure;
}

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
