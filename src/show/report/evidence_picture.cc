#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "report/charts.h"
#include "report/evidence.h"
#include "report/words.h"

namespace posenc::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kWide = 700.0;    // of the only panel of a row
constexpr double kNarrow = 330.0;  // of one of two
constexpr double kLetterWidth = 6.5;

// A line of the picture: an encoding, or one that was evaluated under another schedule.
struct Series {
  std::string encoding;
  std::string schedule;
  bool operator==(const Series&) const = default;
};

std::vector<Series> all_series(const TaskTable& table) {
  std::vector<Series> all;
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      const Series series{entry.encoding, cell.schedule};
      if (std::find(all.begin(), all.end(), series) == all.end()) all.push_back(series);
    }
  }
  return all;
}

// A panel: some conditions of one variant, by length or side by side.
struct PanelPlan {
  std::string title;
  std::size_t variant = 0;
  std::vector<TableCondition> conditions;
  bool by_length = false;
};

// Axes with two lengths or more have a panel by length, which starts in domain where the axis does not have
// the trained length. The others share one panel with a place for each.
std::vector<PanelPlan> plans_of(const TaskTable& table, std::size_t variant) {
  const std::vector<TableCondition> all = conditions_of(table);
  PanelPlan shared{.title = "", .variant = variant, .conditions = {}, .by_length = false};
  std::vector<PanelPlan> plans;
  for (const std::string& axis : table.axes) {
    std::vector<TableCondition> own;
    std::copy_if(all.begin(), all.end(), std::back_inserter(own),
                 [&](const TableCondition& c) { return c.axis == axis; });
    if (own.size() < 2) {
      shared.conditions.insert(shared.conditions.end(), own.begin(), own.end());
      continue;
    }
    const bool from_one = own.front().factor == 1.0;
    if (!from_one && all.front().axis == kInDomain) own.insert(own.begin(), all.front());
    plans.push_back({"axis " + axis, variant, own, true});
  }
  if (shared.conditions.empty() && !plans.empty()) return plans;
  if (!all.empty() && all.front().axis == kInDomain) {
    shared.conditions.insert(shared.conditions.begin(), all.front());
  }
  if (!shared.conditions.empty()) plans.insert(plans.begin(), shared);
  return plans;
}

// Series stand side by side at a condition, so that the points of one do not hide those of another: few of them close
// together, many on at most half of the way to the next condition.
double place(const PanelPlan& plan, std::size_t condition, std::size_t series, std::size_t count) {
  if (count < 2)
    return plan.by_length ? plan.conditions[condition].factor : static_cast<double>(condition);
  const double gaps = static_cast<double>(count - 1);
  const double share = static_cast<double>(series) / gaps - 0.5;
  if (plan.by_length) {
    return plan.conditions[condition].factor * std::exp2(std::min(0.18, 0.04 * gaps) * share);
  }
  return static_cast<double>(condition) + std::min(0.5, 0.08 * gaps) * share;
}

const Entry* entry_of(const TaskTable& table, const Series& series, std::size_t variant) {
  const auto found =
      std::find_if(table.entries.begin(), table.entries.end(), [&](const Entry& entry) {
        return entry.variant == variant && entry.encoding == series.encoding;
      });
  return found == table.entries.end() ? nullptr : &*found;
}

// A panel without a condition of the schedule would show the model's own line a second time.
bool has_schedule(const Entry& entry, const PanelPlan& plan, const std::string& schedule) {
  return schedule.empty() ||
         std::any_of(plan.conditions.begin(), plan.conditions.end(), [&](const TableCondition& c) {
           return entry.cell(c.axis, c.factor, schedule) != nullptr;
         });
}

struct SeriesCurves {
  draw::Curve means;
  draw::Curve seeds;
};

SeriesCurves curves_of(const TaskTable& table, const PanelPlan& plan, const Series& series,
                       std::size_t index, std::size_t count) {
  SeriesCurves curves;
  curves.seeds.stroke = draw::Stroke::kDots;
  curves.means.stroke = series.schedule.empty() ? draw::Stroke::kSolid : draw::Stroke::kDashed;
  curves.means.color = curves.seeds.color = static_cast<int>(index);
  curves.means.name = fmt::format("{} {}", index + 1, row_name(series.encoding, series.schedule));
  const Entry* entry = entry_of(table, series, plan.variant);
  if (entry == nullptr || !has_schedule(*entry, plan, series.schedule)) return curves;
  for (std::size_t c = 0; c < plan.conditions.size(); ++c) {
    const TableCondition& condition = plan.conditions[c];
    const Cell* cell = entry->row_cell(condition.axis, condition.factor, series.schedule);
    const double x = place(plan, c, index, count);
    curves.means.x.push_back(x);
    curves.means.y.push_back(cell == nullptr ? kNaN : drawn(cell->headline().mean, table.metric));
    if (cell == nullptr) continue;
    std::vector<double> points = cell->headline().points;
    if (const auto worst = traits_of(table.metric).worst) {
      points.insert(points.end(), cell->failed, *worst);
    }
    for (const double point : points) {
      curves.seeds.x.push_back(x);
      curves.seeds.y.push_back(drawn(point, table.metric));
    }
  }
  return curves;
}

draw::Curve chance_of(const TaskTable& table, const PanelPlan& plan, int color) {
  draw::Curve curve{.name = "chance", .stroke = draw::Stroke::kDashed, .color = color};
  for (std::size_t c = 0; c < plan.conditions.size(); ++c) {
    const TableCondition& condition = plan.conditions[c];
    double sum = 0.0;
    double count = 0.0;
    for (const Entry& entry : table.entries) {
      const Cell* cell = entry.cell(condition.axis, condition.factor);
      if (cell == nullptr || entry.variant != plan.variant) continue;
      sum += cell->headline().chance;
      count += 1.0;
    }
    if (count == 0.0) continue;
    curve.x.push_back(place(plan, c, 0, 1));
    curve.y.push_back(drawn(sum / count, table.metric));
  }
  return curve;
}

struct LineEnd {
  double x = 0.0;
  double y = 0.0;
  bool last = false;  // at the last condition, where the panel leaves room for numbers
  std::vector<std::size_t> numbers;
};

std::vector<LineEnd> line_ends(const std::vector<draw::Curve>& lines) {
  std::vector<LineEnd> ends;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t p = lines[i].x.size(); p-- > 0;) {
      if (!std::isfinite(lines[i].y[p])) continue;
      const bool last = p + 1 == lines[i].x.size();
      ends.push_back({last ? 0.0 : lines[i].x[p], lines[i].y[p], last, {i + 1}});
      break;
    }
  }
  std::sort(ends.begin(), ends.end(), [](const LineEnd& a, const LineEnd& b) {
    return std::tie(a.last, a.x, a.y) < std::tie(b.last, b.x, b.y);
  });
  return ends;
}

// Numbers that would cover each other share one place.
std::vector<LineEnd> joined(const std::vector<LineEnd>& ends, double gap) {
  std::vector<LineEnd> places;
  for (const LineEnd& end : ends) {
    const bool joins = !places.empty() && places.back().last == end.last &&
                       places.back().x == end.x && end.y - places.back().y < gap;
    if (!joins) {
      places.push_back(end);
      continue;
    }
    std::vector<std::size_t>& numbers = places.back().numbers;
    numbers.push_back(end.numbers.front());
    std::sort(numbers.begin(), numbers.end());
  }
  return places;
}

std::string end_label(const LineEnd& end) { return fmt::format("{}", fmt::join(end.numbers, ",")); }

// Makes the x axis longer by what the widest text needs, and returns where the texts begin.
double leave_room(draw::Axis& axis, const std::vector<LineEnd>& places, double width) {
  std::size_t letters = 0;
  for (const LineEnd& place : places) {
    if (place.last) letters = std::max(letters, end_label(place).size());
  }
  const double share = (kLetterWidth * static_cast<double>(letters) + 12.0) / width;
  const double begin = *axis.high;
  const double more = share / (1.0 - share);
  axis.high =
      axis.log ? begin * std::pow(begin / *axis.low, more) : begin + (begin - *axis.low) * more;
  return begin;
}

// The number of each line at its right end, as in the legend: lines are told apart without colours.
void number_lines(draw::Panel& panel, const std::vector<draw::Curve>& lines, double width) {
  const draw::Range y = draw::y_range(panel);
  const std::vector<LineEnd> places = joined(line_ends(lines), (y.high - y.low) / 22.0);
  const double begin = leave_room(panel.x, places, width);
  for (const LineEnd& place : places) {
    panel.notes.push_back({place.last ? begin : place.x, place.y, end_label(place)});
  }
}

void set_axes(const TaskTable& table, const PanelPlan& plan, draw::Panel& panel) {
  if (plan.by_length) {
    panel.x = {.label = "times the trained length", .log = true, .base2 = true};
    panel.x.low = plan.conditions.front().factor / 1.12;
    panel.x.high = plan.conditions.back().factor * 1.08;
  } else {
    for (const TableCondition& c : plan.conditions) panel.x.words.push_back(condition_name(c));
    panel.x.low = -0.4;
    panel.x.high = static_cast<double>(plan.conditions.size()) - 0.7;
  }
  panel.y = metric_axis(table.metric);
  if (!traits_of(table.metric).share) return;
  const draw::Range y = draw::y_range(panel);
  panel.y.low = -0.03 * y.high;  // points at the edges are whole
  panel.y.high = 1.04 * y.high;
}

draw::Panel make_panel(const TaskTable& table, const PanelPlan& plan,
                       const std::vector<Series>& series, double width) {
  draw::Panel panel;
  const std::string variant = variant_words(table.variants[plan.variant]);
  panel.title = plan.title + (plan.title.empty() || variant.empty() ? "" : ", ") + variant;
  std::vector<draw::Curve> lines;
  for (std::size_t s = 0; s < series.size(); ++s) {
    SeriesCurves curves = curves_of(table, plan, series[s], s, series.size());
    lines.push_back(curves.means);
    panel.curves.push_back(std::move(curves.means));
    panel.curves.push_back(std::move(curves.seeds));
  }
  // Bits per byte have no chance level worth the name.
  if (traits_of(table.metric).share) {
    panel.curves.push_back(chance_of(table, plan, static_cast<int>(series.size())));
  }
  set_axes(table, plan, panel);
  number_lines(panel, lines, width);
  return panel;
}

}  // namespace

std::optional<draw::Figure> evidence_figure(const EvidencePart& part) {
  std::vector<std::pair<const TaskTable*, PanelPlan>> plans;
  for (const TaskTable& table : part.comparison.tasks) {
    for (std::size_t variant = 0; variant < table.variants.size(); ++variant) {
      for (PanelPlan& plan : plans_of(table, variant)) plans.emplace_back(&table, std::move(plan));
    }
  }
  if (plans.empty()) return std::nullopt;
  draw::Figure figure;
  figure.columns = plans.size() == 1 ? 1 : 2;
  figure.panel_width = plans.size() == 1 ? kWide : kNarrow;
  figure.panel_height = 300.0;
  for (const auto& [table, plan] : plans) {
    figure.panels.push_back(make_panel(*table, plan, all_series(*table), figure.panel_width));
  }
  figure.caption =
      "Each point is a seed; lines connect means. The numbers at the ends of lines are those of "
      "the "
      "legend.";
  return figure;
}

}  // namespace posenc::report
