#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace posenc::report {

std::string figure_text(double value, const std::string& metric) {
  if (std::isnan(value)) return "nan";
  if (metric == "accuracy") {
    return value >= 0.9995 ? "100" : fmt::format("{:.1f}", 100.0 * value);
  }
  if (metric == "error") return value == 0.0 ? "0" : fmt::format("{:.1e}", value);
  return fmt::format("{:.3f}", value);
}

std::string estimate_text(const runs::Estimate& e, const std::string& metric) {
  return fmt::format("{} [{},{}]", figure_text(e.value, metric),
                     figure_text(e.interval.low, metric), figure_text(e.interval.high, metric));
}

std::string metric_text(const std::string& metric) {
  if (metric == "accuracy") return "accuracy in %";
  if (metric == "error") return "error rate";
  return "bits per byte";
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
  if (table.metric == "accuracy") return fmt::format("accuracy {:g} %", 100 * table.threshold);
  return fmt::format("an error of {:g}", 1.0 - table.threshold);
}

std::string effective_note(const TaskTable& table) {
  return fmt::format(
      "effective: the longest length that reaches {}, as all shorter ones do; "
      "median [least,most] of the seeds",
      threshold_text(table));
}

std::string speed_text(double tokens_per_s) {
  return tokens_per_s > 0.0 ? fmt::format("{:.0f}", tokens_per_s) : kNothing;
}

std::string cost_text(const Entry& entry) {
  return entry.cost ? fmt::format("{:.2f}x", *entry.cost) : kNothing;
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

std::string shared_text(const TaskTable& table, const std::string& axis, double factor,
                        const std::string& metric, const PickFigure& pick) {
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

std::string chance_text(const TaskTable& table, const std::string& axis, double factor) {
  return shared_text(table, axis, factor, table.metric,
                     [](const Cell& cell) { return std::optional(cell.chance); });
}

std::vector<std::string> trained_shares(const TaskTable& table, const std::string& axis,
                                        const std::vector<double>& factors) {
  std::vector<std::string> shares;
  bool all = true;
  for (const double factor : factors) {
    shares.push_back(shared_text(table, axis, factor, "accuracy",
                                 [](const Cell& cell) { return cell.trained_share; }));
    all = all && (shares.back() == kNothing || shares.back() == "100");
  }
  if (all) shares.clear();
  return shares;
}

std::string ranking_place(const Ranking& ranking) {
  return ranking.what == "in domain" ? "in domain" : "beyond the training length";
}

std::vector<std::size_t> ranking_order(const Ranking& ranking) {
  std::vector<std::size_t> order(ranking.encodings.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ranking.reciprocal_rank[a].value > ranking.reciprocal_rank[b].value;
  });
  return order;
}

}  // namespace posenc::report
