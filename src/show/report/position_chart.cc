// Curves by position beyond training, and maps of length and depth.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/charts.h"
#include "report/sparkline.h"
#include "report/words.h"

namespace posenc::report {
namespace {

constexpr double kPanelWidth = 270.0;
constexpr std::int64_t kColumns = 3;

double middle(const runs::PositionRange& range) {
  return 0.5 * static_cast<double>(range.begin + range.end - 1);
}

draw::Curve position_curve(const Cell& cell, Metric metric) {
  draw::Curve curve{.stroke = draw::Stroke::kDotsAndLine};
  for (const PositionResult& bucket : cell.by_position) {
    curve.x.push_back(middle(bucket.positions));
    curve.y.push_back(drawn(bucket.value, metric));
  }
  return curve;
}

// Of answers whose chance is known; bits per byte have none worth the name.
draw::Curve position_chance(const Cell& cell, Metric metric) {
  draw::Curve curve{.name = "chance", .stroke = draw::Stroke::kDashed};
  for (const PositionResult& bucket : cell.by_position) {
    if (!std::isfinite(bucket.chance)) continue;
    curve.x.push_back(middle(bucket.positions));
    curve.y.push_back(drawn(bucket.chance, metric));
  }
  return curve;
}

draw::Panel position_panel(const TaskTable& table, const Cell& first, const SeriesColors& colors) {
  draw::Panel panel{
      .title = fmt::format("{} at {:.3g}x, length {}", first.axis, first.factor, first.length)};
  panel.x = {.label = "position", .low = 0.0, .high = static_cast<double>(first.length)};
  panel.y = metric_axis(table.metric);
  if (first.length > trained_length(first)) {
    panel.rules.push_back({static_cast<double>(trained_length(first)), "trained"});
  }
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry, first.axis)) {
      const Cell* cell = entry.cell(first.axis, first.factor, schedule);
      if (cell == nullptr || !has_curve(*cell)) continue;
      draw::Curve curve = position_curve(*cell, table.metric);
      curve.name = series_name(table, entry, schedule);
      curve.color = colors.of(curve.name);
      panel.curves.push_back(std::move(curve));
    }
  }
  if (!traits_of(table.metric).share) return panel;
  draw::Curve chance = position_chance(first, table.metric);
  if (!chance.x.empty()) panel.curves.push_back(std::move(chance));
  return panel;
}

using CellsByLength = std::map<std::int64_t, const Cell*>;

CellsByLength depth_cells(const Entry& entry, const std::string& axis) {
  CellsByLength cells;
  for (const Cell& cell : entry.cells) {
    const bool shown = cell.axis == axis && cell.schedule.empty() && !cell.by_depth.empty();
    if (shown) cells.emplace(cell.length, &cell);
  }
  return cells;
}

// Depth in rows, length in columns.
draw::Heatmap depth_map(const CellsByLength& cells) {
  draw::Heatmap map;
  map.rows = std::ssize(cells.begin()->second->by_depth);
  map.columns = std::ssize(cells);
  for (std::size_t d = 0; d < static_cast<std::size_t>(map.rows); ++d) {
    for (const auto& [length, cell] : cells) {
      const bool has = d < cell->by_depth.size();
      map.values.push_back(has ? static_cast<float>(100.0 * cell->by_depth[d].accuracy) : NAN);
    }
  }
  map.low = 0.0;
  map.high = 100.0;
  map.label = "whole rows right (%)";
  return map;
}

std::optional<draw::Panel> depth_panel(const TaskTable& table, const Entry& entry,
                                       const std::string& axis) {
  const CellsByLength cells = depth_cells(entry, axis);
  if (cells.empty()) return std::nullopt;
  draw::Panel panel{.title =
                        series_name(table, entry) + (table.axes.size() > 1 ? ", " + axis : "")};
  panel.x.label = "length (tokens)";
  for (const auto& [length, cell] : cells) panel.x.words.push_back(std::to_string(length));
  panel.y.label = "depth (%)";
  for (const DepthResult& depth : cells.begin()->second->by_depth) {
    panel.y.words.push_back(fmt::format("{:.0f}", 100.0 * depth.from));
  }
  panel.y_down = true;
  panel.map = depth_map(cells);
  return panel;
}

}  // namespace

std::optional<draw::Figure> position_figure(const TaskTable& table, const SeriesColors& colors) {
  draw::Figure figure{
      .title = fmt::format("{}: {} by position", table.task, traits_of(table.metric).title)};
  for (const std::string& axis : table.axes) {
    for (const double factor : factors_of(table, axis)) {
      const Cell* first = first_curve(table, axis, factor);
      if (first != nullptr) figure.panels.push_back(position_panel(table, *first, colors));
    }
  }
  if (figure.panels.empty()) return std::nullopt;
  figure.columns = std::min(kColumns, std::ssize(figure.panels));
  figure.panel_width = figure.columns == 1 ? 2.0 * kPanelWidth : kPanelWidth;
  figure.panel_height = 220.0;
  return figure;
}

std::optional<draw::Figure> depth_figure(const TaskTable& table) {
  draw::Figure figure{.title = fmt::format("{}: whole rows right by length and depth", table.task)};
  for (const std::string& axis : table.axes) {
    for (const Entry& entry : table.entries) {
      if (auto panel = depth_panel(table, entry, axis)) figure.panels.push_back(std::move(*panel));
    }
  }
  if (figure.panels.empty()) return std::nullopt;
  figure.columns = std::min(kColumns, std::ssize(figure.panels));
  figure.panel_width = 200.0;
  figure.panel_height = 220.0;
  return figure;
}

}  // namespace posenc::report
