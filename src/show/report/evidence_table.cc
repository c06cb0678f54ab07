#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "report/evidence.h"
#include "report/words.h"

namespace posenc::report {
namespace {

// The condition as the entries have it, or nothing where none of them has.
std::optional<TableCondition> condition_at(const TaskTable& table, const std::string& axis,
                                           double factor) {
  std::optional<TableCondition> found;
  for (const Entry& entry : table.entries) {
    for (const Cell& cell : entry.cells) {
      if (cell.axis != axis || cell.factor != factor || cell.n == 0) continue;
      if (!found) found = {axis, factor, cell.length, cell.beyond_training};
      if (found->length != cell.length) found->length = 0;
    }
  }
  return found;
}

double worst_seed(const Cell& cell, Metric metric) {
  const MetricTraits traits = traits_of(metric);
  if (cell.failed > 0 && traits.worst) return *traits.worst;
  const auto& points = cell.headline().points;
  return traits.higher_better ? *std::min_element(points.begin(), points.end())
                              : *std::max_element(points.begin(), points.end());
}

// Whether the figure is clearly better than a guess: its interval, or each seed where there is none.
bool beats_chance(const Cell& cell, Metric metric) {
  const bool higher = traits_of(metric).higher_better;
  const RegionFigure& figure = cell.headline();
  double least = worst_seed(cell, metric);
  if (figure.interval) least = higher ? figure.interval->low : figure.interval->high;
  return higher ? least > figure.chance : least < figure.chance;
}

// The farthest condition at which the entry is still better than a guess, with its worst seed.
std::string farthest_text(const TaskTable& table, const Entry& entry, const std::string& schedule) {
  std::vector<TableCondition> conditions = conditions_of(table);
  std::stable_sort(
      conditions.begin(), conditions.end(),
      [](const TableCondition& a, const TableCondition& b) { return a.factor < b.factor; });
  for (auto c = conditions.rbegin(); c != conditions.rend(); ++c) {
    const Cell* cell = entry.row_cell(c->axis, c->factor, schedule);
    if (cell == nullptr || cell->headline().points.empty()) continue;
    if (!beats_chance(*cell, table.metric)) continue;
    return fmt::format("{}, {}", figure_text(worst_seed(*cell, table.metric), table.metric),
                       condition_name(*c));
  }
  return "at chance";
}

std::vector<std::string> result_row(const TaskTable& table, const Entry& entry,
                                    const std::string& schedule) {
  std::vector<std::string> row = {row_name(table, entry, schedule), runs_text(entry)};
  for (const TableCondition& c : conditions_of(table)) {
    row.push_back(evidence_text(entry.row_cell(c.axis, c.factor, schedule), table.metric));
  }
  row.push_back(farthest_text(table, entry, schedule));
  return row;
}

std::vector<std::string> single_answers_row(const TaskTable& table, const Entry& entry) {
  std::vector<std::string> row = {row_name(table, entry)};
  for (const TableCondition& c : conditions_of(table)) {
    const Cell* cell = entry.row_cell(c.axis, c.factor, "");
    if (cell == nullptr || cell->single.empty()) {
      row.emplace_back(kNothing);
      continue;
    }
    const Cell shown = single_answers(*cell);
    row.push_back(evidence_text(&shown, table.metric));
  }
  return row;
}

std::vector<std::string> chance_row(const TaskTable& table) {
  std::vector<std::string> row = {"chance", ""};
  for (const TableCondition& c : conditions_of(table)) {
    row.push_back(chance_text(table, c.axis, c.factor));
  }
  row.emplace_back("");
  return row;
}

}  // namespace

std::string evidence_text(const Cell* cell, Metric metric) {
  if (cell == nullptr) return kNothing;
  const RegionFigure& figure = cell->headline();
  if (!figure.interval) return points_text(cell, runs::Region::kHeadline, metric);
  return fmt::format("{} [{}, {}]", figure_text(figure.mean, metric),
                     figure_text(figure.interval->low, metric),
                     figure_text(figure.interval->high, metric));
}

std::vector<TableCondition> conditions_of(const TaskTable& table) {
  std::vector<TableCondition> conditions;
  if (const auto in_domain = condition_at(table, kInDomain, 1.0)) conditions.push_back(*in_domain);
  for (const std::string& axis : table.axes) {
    for (const double factor : factors_of(table, axis)) {
      const auto found = condition_at(table, axis, factor);
      const bool same_bytes = in_bits(table.metric) && factor == 1.0;
      if (found && (found->beyond_training || same_bytes)) conditions.push_back(*found);
    }
  }
  return conditions;
}

std::string condition_name(const TableCondition& condition) {
  const std::string length = condition.length == 0 ? "" : fmt::format(" ({})", condition.length);
  if (condition.axis == kInDomain) return "in domain" + length;
  const std::string factor =
      condition.factor == 1.0 ? "" : fmt::format(" {:.3g}x", condition.factor);
  return condition.axis + factor + length;
}

std::string variant_words(const Variant& variant) {
  return fmt::format("{}", fmt::join(variant.settings, ", "));
}

std::string row_name(const TaskTable& table, const Entry& entry, const std::string& schedule) {
  const std::string variant = variant_words(table.variants[entry.variant]);
  return row_name(entry.encoding, schedule) + (variant.empty() ? "" : ", " + variant);
}

TextTable results_table(const TaskTable& table) {
  TextTable text{.title = fmt::format("{}: {}", table.task, metric_title(table)),
                 .header = {"encoding", "seeds"},
                 .rows = {},
                 .notes = {}};
  for (const TableCondition& c : conditions_of(table)) text.header.push_back(condition_name(c));
  text.header.emplace_back("worst seed");
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry)) {
      text.rows.push_back(result_row(table, entry, schedule));
    }
  }
  text.rows.push_back(chance_row(table));
  return text;
}

Cell single_answers(const Cell& cell) {
  Cell single = cell;
  RegionFigure& figure = single.regions[static_cast<std::size_t>(runs::Region::kHeadline)];
  figure.points = cell.single;
  figure.mean = statistics::mean_over_seeds(cell.single).value;
  figure.interval = std::nullopt;
  return single;
}

std::optional<TextTable> single_answers_table(const TaskTable& table) {
  if (!table.row_metric) return std::nullopt;
  TextTable text{.title = fmt::format("{}: {} of single answers, seed by seed", table.task,
                                      traits_of(table.metric).title),
                 .header = {"encoding"},
                 .rows = {},
                 .notes = {}};
  for (const TableCondition& c : conditions_of(table)) text.header.push_back(condition_name(c));
  for (const Entry& entry : table.entries) text.rows.push_back(single_answers_row(table, entry));
  return text;
}

}  // namespace posenc::report
