#include "report/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace posenc::report {
namespace {

template <class Test>
bool any_cell(const TaskTable& table, const std::string& axis, double factor, Test test) {
  return std::any_of(table.entries.begin(), table.entries.end(), [&](const Entry& entry) {
    return std::any_of(entry.cells.begin(), entry.cells.end(), [&](const Cell& cell) {
      return cell.axis == axis && cell.factor == factor && test(cell);
    });
  });
}

}  // namespace

std::string figure_text(double value, Metric metric) {
  if (std::isnan(value)) return "nan";
  if (metric == Metric::kAccuracy) {
    return value >= 0.9995 ? "100" : fmt::format("{:.1f}", 100.0 * value);
  }
  if (metric == Metric::kError) {  // small ones matter, so they keep two digits
    return value >= 0.00095 || value == 0.0 ? fmt::format("{:.1f}", 100.0 * value)
                                            : fmt::format("{:.2g}", 100.0 * value);
  }
  return fmt::format("{:.3f}", value);
}

std::string row_name(const std::string& name, const std::string& schedule) {
  return schedule.empty() ? name : fmt::format("{}, {}", name, schedule);
}

std::string name_in_sentence(const std::string& name, const std::string& schedule) {
  return schedule.empty() ? name : fmt::format("{} with {}", name, schedule);
}

std::string headline_text(const Cell* cell, Metric metric) {
  if (cell == nullptr) return kNothing;
  const RegionFigure& figure = cell->headline();
  if (!figure.interval) return points_text(cell, runs::Region::kHeadline, metric);
  return fmt::format("{} [{},{}]", figure_text(figure.mean, metric),
                     figure_text(figure.interval->low, metric),
                     figure_text(figure.interval->high, metric));
}

std::string mean_text(const Cell* cell, runs::Region region, Metric metric) {
  if (cell == nullptr) return kNothing;
  const RegionFigure& figure = cell->region(region);
  return figure.interval ? figure_text(figure.mean, metric) : points_text(cell, region, metric);
}

std::optional<double> seeds_mean(const Cell* cell, SeedFigures figures, Metric metric) {
  if (cell == nullptr || (cell->*figures).empty()) return std::nullopt;
  std::vector<double> values = cell->*figures;
  const std::optional<double> worst = traits_of(metric).worst;
  if (cell->failed > 0 && !worst) return std::nullopt;
  values.insert(values.end(), cell->failed, worst.value_or(0.0));
  return statistics::mean_over_seeds(values).value;
}

std::string seeds_mean_text(const Cell* cell, SeedFigures figures, Metric metric) {
  const std::optional<double> mean = seeds_mean(cell, figures, metric);
  return mean ? figure_text(*mean, metric) : kNothing;
}

std::string points_text(const Cell* cell, runs::Region region, Metric metric) {
  if (cell == nullptr) return kNothing;
  std::vector<std::string> points;
  for (const double value : cell->region(region).points) {
    points.push_back(figure_text(value, metric));
  }
  points.insert(points.end(), cell->failed, "x");
  return fmt::format("{}", fmt::join(points, " "));
}

std::string metric_title(const TaskTable& table) {
  return std::string(traits_of(table.metric).title) + (table.row_metric ? " of whole rows" : "");
}

std::string runs_text(const Entry& entry) {
  if (entry.failed.empty()) return std::to_string(entry.runs());
  const bool diverged =
      std::all_of(entry.failed.begin(), entry.failed.end(),
                  [](const FailedRun& run) { return run.remark.starts_with("diverged"); });
  return fmt::format("{} of {} {}", entry.failed.size(), entry.runs(),
                     diverged ? "diverged" : "failed");
}

bool any_failed(const TaskTable& table) {
  return std::any_of(table.entries.begin(), table.entries.end(),
                     [](const Entry& entry) { return !entry.failed.empty(); });
}

bool has_intervals(const TaskTable& table) {
  return std::any_of(table.entries.begin(), table.entries.end(),
                     [](const Entry& entry) { return entry.runs() >= statistics::kFewestSeeds; });
}

std::string effective_text(const EffectiveLength& length) {
  return length.lowest == length.highest
             ? std::to_string(length.median)
             : fmt::format("{} [{},{}]", length.median, length.lowest, length.highest);
}

const EffectiveLength* effective_of(const Entry& entry, const std::string& axis,
                                    const std::string& schedule) {
  const auto found = std::find_if(
      entry.effective.begin(), entry.effective.end(),
      [&](const EffectiveLength& e) { return e.axis == axis && e.schedule == schedule; });
  return found == entry.effective.end() ? nullptr : &*found;
}

std::string threshold_text(const TaskTable& table) {
  if (table.metric == Metric::kAccuracy) {
    return fmt::format("accuracy {:g} %", 100 * table.threshold);
  }
  return fmt::format("an error of {:g} %", 100 * (1.0 - table.threshold));
}

std::string effective_note(const TaskTable& table) {
  return fmt::format(
      "effective: the longest length that reaches {}, as all shorter ones do; "
      "median [least,most] of the seeds",
      threshold_text(table));
}

std::string regions_note() {
  return "a length beyond the trained one is scored on the positions beyond it; last 1/8: on the "
         "last eighth of the row; all: on every position";
}

std::string failure_note(Metric metric) {
  const std::optional<double> worst = traits_of(metric).worst;
  if (!worst) return "x: a run that diverged or failed; there is no mean then";
  return fmt::format("x: a run that diverged or failed; it counts as {} {:.0f} % in the mean",
                     name_of(metric), 100.0 * *worst);
}

std::string speed_text(double tokens_per_s) {
  return tokens_per_s > 0.0 ? fmt::format("{:.0f}", tokens_per_s) : kNothing;
}

std::string cost_text(const Entry& entry) {
  return entry.cost ? fmt::format("{:.2f}x", *entry.cost) : kNothing;
}

std::string memory_text(const Entry& entry) {
  const double memory = entry.peak_memory_bytes / (1 << 20);
  return memory > 0 ? fmt::format("{:.0f}", memory) : kNothing;
}

bool has_beyond(const TaskTable& table) {
  return std::any_of(table.entries.begin(), table.entries.end(),
                     [&](const Entry& entry) { return beyond_training(table, entry).has_value(); });
}

std::string beyond_mean_text(const TaskTable& table, const Entry& entry) {
  const double mean = beyond_training(table, entry).value_or(std::nan(""));
  return std::isfinite(mean) ? figure_text(mean, table.metric) : kNothing;
}

std::vector<double> factors_of(const TaskTable& table, const std::string& axis) {
  std::vector<double> factors;
  for (const double factor : table.factors) {
    const bool any = std::any_of(table.entries.begin(), table.entries.end(), [&](const Entry& e) {
      return std::any_of(e.cells.begin(), e.cells.end(), [&](const Cell& cell) {
        return cell.axis == axis && cell.factor == factor;
      });
    });
    if (any) factors.push_back(factor);
  }
  return factors;
}

std::vector<std::string> schedules_of(const Entry& entry, const std::string& axis) {
  std::vector<std::string> schedules;
  for (const Cell& cell : entry.cells) {
    if (cell.axis != axis) continue;
    if (std::find(schedules.begin(), schedules.end(), cell.schedule) == schedules.end()) {
      schedules.push_back(cell.schedule);
    }
  }
  return schedules;
}

std::vector<std::string> schedules_of(const Entry& entry) {
  std::vector<std::string> schedules = {""};
  for (const Cell& cell : entry.cells) {
    if (std::find(schedules.begin(), schedules.end(), cell.schedule) == schedules.end()) {
      schedules.push_back(cell.schedule);
    }
  }
  return schedules;
}

bool has_regions(const TaskTable& table, const std::string& axis, double factor) {
  return any_cell(table, axis, factor,
                  [](const Cell& cell) { return cell.headline().positions.begin > 0; });
}

bool has_figures(const TaskTable& table, const std::string& axis, double factor,
                 SeedFigures figures) {
  return any_cell(table, axis, factor, [&](const Cell& cell) { return !(cell.*figures).empty(); });
}

std::string shared_text(const TaskTable& table, const std::string& axis, double factor,
                        Metric metric, const PickFigure& pick) {
  std::vector<double> values;
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      if (cell.axis != axis || cell.factor != factor || cell.n == 0) continue;
      if (const std::optional<double> value = pick(cell)) values.push_back(*value);
    }
  }
  if (values.empty()) return kNothing;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string from = figure_text(*low, metric);
  const std::string to = figure_text(*high, metric);
  return from == to ? from : from + " to " + to;
}

std::string chance_text(const TaskTable& table, const std::string& axis, double factor,
                        runs::Region region) {
  return shared_text(table, axis, factor, table.metric,
                     [&](const Cell& cell) { return std::optional(cell.region(region).chance); });
}

std::string trained_text(const TaskTable& table, const std::string& axis, double factor) {
  return shared_text(table, axis, factor, Metric::kAccuracy,
                     [](const Cell& cell) { return cell.trained_share; });
}

bool has_untrained(const TaskTable& table, const std::string& axis) {
  for (const double factor : factors_of(table, axis)) {
    const std::string share = trained_text(table, axis, factor);
    if (share != kNothing && share != "100") return true;
  }
  return false;
}

}  // namespace posenc::report
