#include "report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "report/words.h"

namespace posenc::report {
namespace {

constexpr double kPageWidth = 1000.0;
constexpr double kLabelledWidth = 400.0;  // of a panel with names at the ends of its lines
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

draw::Curve length_curve(const TaskTable& table, const Entry& entry, const std::string& axis,
                         const std::string& schedule) {
  draw::Curve curve;
  curve.name = series_name(table, entry, schedule);
  curve.stroke = schedule.empty() ? draw::Stroke::kDotsAndLine : draw::Stroke::kDashed;
  for (const Cell& cell : entry.cells) {
    if (cell.axis != axis || cell.schedule != schedule) continue;
    const double mean = cell.n > 0 ? drawn(cell.headline().mean, table.metric) : kNaN;
    const auto band = cell.headline().interval;
    curve.x.push_back(static_cast<double>(cell.length));
    curve.y.push_back(mean);
    curve.low.push_back(band ? drawn(band->low, table.metric) : mean);
    curve.high.push_back(band ? drawn(band->high, table.metric) : mean);
  }
  return curve;
}

// The seeds of an entry as dots, where they are too few for a band.
draw::Curve seed_dots(const TaskTable& table, const Entry& entry, const std::string& axis) {
  draw::Curve dots{.stroke = draw::Stroke::kDots};
  for (const Cell& cell : entry.cells) {
    if (cell.axis != axis || !cell.schedule.empty() || cell.headline().interval) continue;
    for (const double point : cell.headline().points) {
      dots.x.push_back(static_cast<double>(cell.length));
      dots.y.push_back(drawn(point, table.metric));
    }
  }
  return dots;
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
      sum += cell->headline().chance;
      count += 1.0;
      length = static_cast<double>(cell->length);
    }
    if (count == 0.0) continue;
    curve.x.push_back(length);
    curve.y.push_back(drawn(sum / count, table.metric));
  }
  return curve;
}

struct LineEnd {
  std::string name;
  double x = 0.0;
  double y = 0.0;
};

// The last point of each curve that is drawn as a line and has a name.
std::vector<LineEnd> line_ends(const draw::Panel& panel) {
  std::vector<LineEnd> ends;
  for (const draw::Curve& curve : panel.curves) {
    if (curve.name.empty() || curve.stroke == draw::Stroke::kDots) continue;
    for (std::size_t i = curve.x.size(); i-- > 0;) {
      if (!std::isfinite(curve.y[i])) continue;
      ends.push_back({curve.name, curve.x[i], curve.y[i]});
      break;
    }
  }
  return ends;
}

// Names at the ends of lines that no other line ends near, with room for them at the right.
void label_line_ends(draw::Panel& panel, double width, double height) {
  constexpr double kLabelHeight = 14.0;
  constexpr double kLongest = 0.25;  // of the panel
  const draw::Range y = draw::y_range(panel);
  const std::vector<LineEnd> ends = line_ends(panel);
  double high = *panel.x.high;
  for (const LineEnd& end : ends) {
    const double room = (12.0 + text_width(end.name)) / width;
    const auto near = std::count_if(ends.begin(), ends.end(), [&](const LineEnd& other) {
      return std::abs(other.y - end.y) / (y.high - y.low) * height < kLabelHeight;
    });
    if (near > 1 || room > kLongest) continue;
    panel.notes.push_back({end.x, end.y, end.name});
    const double low = *panel.x.low;
    high = std::max(high, low * std::pow(end.x / low, 1.0 / (1.0 - room)));
  }
  panel.x.high = high;
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
      curve.color = colors.of(curve.name);
      panel.curves.push_back(std::move(curve));
    }
    draw::Curve dots = seed_dots(table, entry, axis);
    dots.color = colors.of(series_name(table, entry));
    if (entry.runs() > 1 && !dots.x.empty()) panel.curves.push_back(std::move(dots));
  }
  // Bits per byte have no chance level worth the name.
  if (traits_of(table.metric).share) panel.curves.push_back(chance_curve(table, axis));
  const draw::Range x = draw::x_range(panel);
  panel.x.low = x.low / 1.15;  // dots at the ends are whole
  panel.x.high = x.high * 1.15;
  return panel;
}

}  // namespace

double text_width(const std::string& text) { return 6.4 * static_cast<double>(text.size()); }

double drawn(double value, Metric metric) {
  return traits_of(metric).share ? 100.0 * value : value;
}

draw::Axis metric_axis(Metric metric, const std::string& what) {
  draw::Axis axis;
  const std::string lead = what.empty() ? "" : what + ": ";
  if (metric == Metric::kAccuracy) {
    axis.label = lead + "accuracy (%)";
    axis.low = 0.0;
    axis.high = 100.0;
  } else {
    axis.label = lead + std::string(traits_of(metric).title);
  }
  return axis;
}

std::string series_name(const TaskTable& table, const Entry& entry, const std::string& schedule) {
  const std::string& variant = table.variants[entry.variant].name;
  return row_name(
      variant.empty() ? entry.encoding : fmt::format("{} [{}]", entry.encoding, variant), schedule);
}

SeriesColors::SeriesColors(const Comparison& comparison) {
  std::vector<std::string>
      others;  // after the encodings, which keep their colours with and without them
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      for (const std::string& schedule : schedules_of(entry)) {
        (schedule.empty() ? names_ : others).push_back(series_name(table, entry, schedule));
      }
    }
  }
  names_.insert(names_.end(), others.begin(), others.end());
  std::set<std::string> seen;
  std::erase_if(names_, [&](const std::string& name) { return !seen.insert(name).second; });
}

int SeriesColors::of(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return static_cast<int>(found - names_.begin());
}

std::optional<draw::Figure> length_figure(const TaskTable& table, const SeriesColors& colors) {
  if (table.axes.empty() || table.entries.empty()) return std::nullopt;
  draw::Figure figure;
  figure.title = fmt::format("{}: {} against length", table.task, metric_title(table));
  figure.columns = std::min<std::int64_t>(3, std::ssize(table.axes));
  figure.panel_width = kPageWidth / static_cast<double>(figure.columns) - 75.0;
  figure.panel_width = std::min(figure.panel_width, 560.0);
  figure.panel_height = 260.0;
  for (const std::string& axis : table.axes) {
    figure.panels.push_back(length_panel(table, axis, colors));
    if (figure.panel_width < kLabelledWidth) continue;
    label_line_ends(figure.panels.back(), figure.panel_width, figure.panel_height);
  }
  return figure;
}

}  // namespace posenc::report
