// The tables of a task, with every digit in data-value for sorting and for programs.
#include "report/html_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html_parts.h"
#include "report/html_text.h"
#include "report/words.h"

namespace posenc::report {
namespace {

std::string plain_cell(double value, const std::string& shown) {
  if (!std::isfinite(value)) return fmt::format("<td class=\"num\">{}</td>", escaped(shown));
  return fmt::format("<td class=\"num\" data-value=\"{}\">{}</td>", number_text(value),
                     escaped(shown));
}

// A bar from 0 to 100 % with its interval, under the number.
std::string bar(const runs::Estimate& e) {
  return fmt::format("<i class=\"bar\" style=\"--l:{:.4f};--v:{:.4f};--h:{:.4f}\"></i>",
                     e.interval.low, e.value, e.interval.high);
}

std::string estimate_cell(const Cell* cell, const std::string& metric, std::size_t seeds) {
  if (cell == nullptr) return "<td class=\"num\">-</td>";
  const runs::Estimate& e = cell->estimate;
  return fmt::format(
      "<td class=\"num\" data-value=\"{}\" data-low=\"{}\" data-high=\"{}\" "
      "title=\"seeds from {} to {}, n {}\">{} <span class=\"ci\">[{}, {}]</span>{}</td>",
      number_text(e.value), number_text(e.interval.low), number_text(e.interval.high),
      figure_text(cell->lowest, metric), figure_text(cell->highest, metric),
      cell->n < seeds ? fmt::format("{} of {}", cell->n, seeds) : std::to_string(cell->n),
      figure_text(e.value, metric), figure_text(e.interval.low, metric),
      figure_text(e.interval.high, metric), metric == "accuracy" ? bar(e) : "");
}

std::string effective_cell(const EffectiveLength* length) {
  if (length == nullptr) return "<td class=\"num\">-</td>";
  return plain_cell(static_cast<double>(length->median), effective_text(*length));
}

std::string name_cell(const TaskTable& table, const Entry& entry, const SeriesColors& colors,
                      const std::string& schedule = "") {
  const std::string name = series_name(table, entry);
  return fmt::format("<th scope=\"row\">{}<code>{}</code>{}</th>", swatch(colors.of(name)),
                     escaped(name), schedule.empty() ? "" : " as " + escaped(schedule));
}

std::string header_row(const std::vector<std::string>& names) {
  std::string row = "<thead><tr>";
  for (const std::string& name : names) {
    row += fmt::format("<th scope=\"col\">{}</th>", escaped(name));
  }
  return row + "</tr></thead>\n";
}

std::string foot_row(const std::string& name, const std::vector<std::string>& cells) {
  std::string row = fmt::format("<tr><th scope=\"row\">{}</th>", name);
  for (const std::string& cell : cells) row += fmt::format("<td class=\"num\">{}</td>", cell);
  return row + "</tr>\n";
}

std::string wrapped(const std::string& id, const std::string& caption, const std::string& rows,
                    const std::string& more = "") {
  return fmt::format(
      "<div class=\"scroll{}\"><table class=\"sortable\" "
      "id=\"{}\"><caption>{}</caption>\n{}</table>"
      "</div>\n",
      more, id, escaped(caption), rows);
}

bool has_beyond(const TaskTable& table) {
  return std::any_of(table.entries.begin(), table.entries.end(),
                     [&](const Entry& entry) { return beyond_training(table, entry).has_value(); });
}

std::string beyond_cell(const TaskTable& table, const Entry& entry) {
  const double value = beyond_training(table, entry).value_or(std::nan(""));
  return plain_cell(value, std::isfinite(value) ? figure_text(value, table.metric) : kNothing);
}

std::string overview_row(const TaskTable& table, const Entry& entry, const SeriesColors& colors,
                         bool beyond) {
  std::string row = "<tr>" + name_cell(table, entry, colors);
  row += plain_cell(static_cast<double>(entry.seeds.size()), std::to_string(entry.seeds.size()));
  row += estimate_cell(entry.cell(kInDomain, 1), table.metric, entry.seeds.size());
  if (beyond) row += beyond_cell(table, entry);
  row += plain_cell(static_cast<double>(entry.parameters), fmt::format("{}", entry.parameters));
  row += plain_cell(static_cast<double>(entry.position_parameters),
                    fmt::format("{}", entry.position_parameters));
  row += plain_cell(entry.tokens_per_s, speed_text(entry.tokens_per_s));
  row += plain_cell(entry.cost.value_or(std::nan("")), cost_text(entry));
  const double memory = entry.peak_memory_bytes / (1 << 20);
  row += plain_cell(memory, memory > 0 ? fmt::format("{:.0f}", memory) : kNothing);
  return row + "</tr>\n";
}

}  // namespace

std::string overview_table(const TaskTable& table, const SeriesColors& colors,
                           const std::string& id) {
  const bool beyond = has_beyond(table);
  std::vector<std::string> names = {"encoding", "seeds", "in domain"};
  if (beyond) names.emplace_back("beyond training");
  names.insert(names.end(), {"parameters", "of positions", "tokens/s", "time against none",
                             "peak memory (MiB)"});
  std::string rows = header_row(names) + "<tbody>\n";
  for (const Entry& entry : table.entries) rows += overview_row(table, entry, colors, beyond);
  std::vector<std::string> foot(names.size() - 1);
  foot[1] = chance_text(table, kInDomain, 1);
  rows += "</tbody>\n<tfoot>" + foot_row("chance", foot) + "</tfoot>\n";
  return wrapped(id, fmt::format("{} with 95 % intervals, in domain", metric_text(table.metric)),
                 rows);
}

std::string axis_table(const TaskTable& table, const std::string& axis, const SeriesColors& colors,
                       const std::string& id) {
  const std::vector<double> factors = factors_of(table, axis);
  std::vector<std::string> names = {"encoding"};
  for (const double factor : factors) names.push_back(fmt::format("{:.3g}×", factor));
  const bool effective = table.metric != "bits_per_byte";
  if (effective) names.emplace_back("effective length");
  std::string rows = header_row(names) + "<tbody>\n";
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry, axis)) {
      rows += "<tr>" + name_cell(table, entry, colors, schedule);
      for (const double factor : factors) {
        rows += estimate_cell(entry.cell(axis, factor, schedule), table.metric, entry.seeds.size());
      }
      if (effective) rows += effective_cell(effective_of(entry, axis, schedule));
      rows += "</tr>\n";
    }
  }
  std::vector<std::string> chance;
  for (const double factor : factors) chance.push_back(chance_text(table, axis, factor));
  if (effective) chance.emplace_back();
  rows += "</tbody>\n<tfoot>" + foot_row("chance", chance);
  std::vector<std::string> shares = trained_shares(table, axis, factors);
  if (!shares.empty()) {
    if (effective) shares.emplace_back();
    rows += foot_row("answers trained %", shares);
  }
  return wrapped(id,
                 fmt::format("axis {}: {} with 95 % intervals, at multiples of the training length",
                             axis, metric_text(table.metric)),
                 rows + "</tfoot>\n");
}

std::string ranking_table(const Ranking& ranking, const std::string& id) {
  std::string rows = header_row({"encoding", "mean reciprocal rank"}) + "<tbody>\n";
  for (const std::size_t i : ranking_order(ranking)) {
    const runs::Estimate& e = ranking.reciprocal_rank[i];
    rows += fmt::format(
        "<tr><th scope=\"row\"><code>{}</code></th><td class=\"num\" data-value=\"{}\">{} <span "
        "class=\"ci\">[{}, {}]</span>{}</td></tr>\n",
        escaped(ranking.encodings[i]), number_text(e.value), figure_text(e.value, "rank"),
        figure_text(e.interval.low, "rank"), figure_text(e.interval.high, "rank"), bar(e));
  }
  return wrapped(id,
                 fmt::format("{}, over {} conditions; 95 %, conditions resampled",
                             ranking_place(ranking), ranking.tasks),
                 rows + "</tbody>\n", " narrow");
}

}  // namespace posenc::report
