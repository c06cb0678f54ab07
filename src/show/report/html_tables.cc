// The tables of a task, with every digit in data-value for sorting and for programs.
#include "report/html_tables.h"

#include <fmt/format.h>

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

// A bar from 0 to 100 % with its interval, and a dot per seed.
std::string bar(const RegionFigure& figure) {
  const statistics::Interval band =
      figure.interval.value_or(statistics::Interval{figure.mean, figure.mean});
  std::string dots;
  for (const double point : figure.points) {
    dots += fmt::format("<b style=\"--v:{:.4f}\"></b>", point);
  }
  return fmt::format("<i class=\"bar\" style=\"--l:{:.4f};--v:{:.4f};--h:{:.4f}\">{}</i>", band.low,
                     figure.mean, band.high, dots);
}

std::string data_members(const RegionFigure& figure) {
  if (!std::isfinite(figure.mean)) return "";
  std::string members = fmt::format(" data-value=\"{}\"", number_text(figure.mean));
  if (figure.interval) {
    members += fmt::format(" data-low=\"{}\" data-high=\"{}\"", number_text(figure.interval->low),
                           number_text(figure.interval->high));
  }
  return members;
}

// The mean with its interval and the seeds below it; the seeds alone where there is no interval.
std::string headline_cell(const Cell* cell, Metric metric) {
  if (cell == nullptr) return "<td class=\"num\">-</td>";
  const RegionFigure& figure = cell->headline();
  const std::string points = escaped(points_text(cell, runs::Region::kHeadline, metric));
  std::string shown = fmt::format("<span class=\"points\">{}</span>", points);
  if (figure.interval) {
    shown = fmt::format("{} <span class=\"ci\">[{}, {}]</span>{}", figure_text(figure.mean, metric),
                        figure_text(figure.interval->low, metric),
                        figure_text(figure.interval->high, metric), shown);
  }
  return fmt::format("<td class=\"num\"{} title=\"positions {} to {}\">{}{}</td>",
                     data_members(figure), figure.positions.begin, figure.positions.end - 1, shown,
                     metric == Metric::kAccuracy ? bar(figure) : "");
}

std::string region_cell(const Cell* cell, runs::Region region, Metric metric) {
  if (cell == nullptr) return "<td class=\"num\">-</td>";
  const RegionFigure& figure = cell->region(region);
  return fmt::format("<td class=\"num\"{} title=\"positions {} to {}; seeds {}\">{}</td>",
                     data_members(figure), figure.positions.begin, figure.positions.end - 1,
                     escaped(points_text(cell, region, metric)),
                     escaped(mean_text(cell, region, metric)));
}

std::string effective_cell(const EffectiveLength* length) {
  if (length == nullptr) return "<td class=\"num\">-</td>";
  return plain_cell(static_cast<double>(length->median), effective_text(*length));
}

std::string name_cell(const TaskTable& table, const Entry& entry, const SeriesColors& colors,
                      const std::string& schedule = "") {
  const std::string name = series_name(table, entry, schedule);
  return fmt::format("<th scope=\"row\">{}<code>{}</code></th>", swatch(colors.of(name)),
                     escaped(name));
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

std::string wrapped(const std::string& id, const std::string& caption, const std::string& rows) {
  return fmt::format(
      "<div class=\"scroll\"><table class=\"sortable\" "
      "id=\"{}\"><caption>{}</caption>\n{}</table>"
      "</div>\n",
      id, escaped(caption), rows);
}

std::string beyond_cell(const TaskTable& table, const Entry& entry) {
  const double value = beyond_training(table, entry).value_or(std::nan(""));
  return plain_cell(value, beyond_mean_text(table, entry));
}

std::string overview_row(const TaskTable& table, const Entry& entry, const SeriesColors& colors,
                         bool beyond) {
  std::string row = "<tr>" + name_cell(table, entry, colors);
  row += plain_cell(static_cast<double>(entry.runs()), runs_text(entry));
  row += headline_cell(entry.cell(kInDomain, 1), table.metric);
  if (beyond) row += beyond_cell(table, entry);
  row += plain_cell(static_cast<double>(entry.parameters), fmt::format("{}", entry.parameters));
  row += plain_cell(static_cast<double>(entry.position_parameters),
                    fmt::format("{}", entry.position_parameters));
  row += plain_cell(entry.tokens_per_s, speed_text(entry.tokens_per_s));
  row += plain_cell(entry.cost.value_or(std::nan("")), cost_text(entry));
  row += plain_cell(entry.peak_memory_bytes / (1 << 20), memory_text(entry));
  return row + "</tr>\n";
}

std::vector<std::string> axis_headings(const TaskTable& table, const std::string& axis) {
  std::vector<std::string> names = {"encoding"};
  for (const double factor : factors_of(table, axis)) {
    names.push_back(fmt::format("{:.3g}×", factor));
    if (has_regions(table, axis, factor)) {
      names.push_back(fmt::format("{:.3g}× last 1/8", factor));
      names.push_back(fmt::format("{:.3g}× all", factor));
    }
    for (const ExtraColumn& extra : kExtraColumns) {
      if (!has_figures(table, axis, factor, extra.figures)) continue;
      names.push_back(fmt::format("{:.3g}× {}", factor, extra.name));
    }
  }
  if (traits_of(table.metric).share) names.emplace_back("effective length");
  return names;
}

// The headline, and of a longer row what its other positions have.
std::string condition_cells(const TaskTable& table, const std::string& axis, double factor,
                            const Cell* cell) {
  std::string cells = headline_cell(cell, table.metric);
  if (has_regions(table, axis, factor)) {
    for (const runs::Region region : {runs::Region::kLastEighth, runs::Region::kAll}) {
      cells += region_cell(cell, region, table.metric);
    }
  }
  for (const ExtraColumn& extra : kExtraColumns) {
    if (!has_figures(table, axis, factor, extra.figures)) continue;
    const double mean = seeds_mean(cell, extra.figures, table.metric).value_or(std::nan(""));
    cells += plain_cell(mean, seeds_mean_text(cell, extra.figures, table.metric));
  }
  return cells;
}

// Chance on the positions of each column, and the share of answers that training had.
std::string axis_foot(const TaskTable& table, const std::string& axis) {
  std::vector<std::string> chance;
  std::vector<std::string> trained;
  for (const double factor : factors_of(table, axis)) {
    chance.push_back(chance_text(table, axis, factor));
    trained.push_back(trained_text(table, axis, factor));
    if (has_regions(table, axis, factor)) {
      for (const runs::Region region : {runs::Region::kLastEighth, runs::Region::kAll}) {
        chance.push_back(chance_text(table, axis, factor, region));
        trained.emplace_back();
      }
    }
    for (const ExtraColumn& extra : kExtraColumns) {
      if (!has_figures(table, axis, factor, extra.figures)) continue;
      chance.emplace_back();
      trained.emplace_back();
    }
  }
  if (traits_of(table.metric).share) {
    chance.emplace_back();
    trained.emplace_back();
  }
  return foot_row("chance", chance) +
         (has_untrained(table, axis) ? foot_row("answers trained %", trained) : "");
}

}  // namespace

std::string overview_id(std::size_t task) { return fmt::format("task-{}-overview", task); }
std::string axis_id(std::size_t task, std::size_t axis) {
  return fmt::format("task-{}-axis-{}", task, axis);
}

std::string overview_table(const TaskTable& table, const SeriesColors& colors,
                           const std::string& id) {
  const bool beyond = has_beyond(table);
  std::vector<std::string> names = {"encoding", "runs", "in domain"};
  if (beyond) names.emplace_back("beyond training");
  names.insert(names.end(), {"parameters", "of positions", "tokens/s", "time against none",
                             "peak memory (MiB)"});
  std::string rows = header_row(names) + "<tbody>\n";
  for (const Entry& entry : table.entries) rows += overview_row(table, entry, colors, beyond);
  std::vector<std::string> foot(names.size() - 1);
  foot[1] = chance_text(table, kInDomain, 1);
  rows += "</tbody>\n<tfoot>" + foot_row("chance", foot) + "</tfoot>\n";
  return wrapped(id, metric_title(table), rows);
}

std::string axis_table(const TaskTable& table, const std::string& axis, const SeriesColors& colors,
                       const std::string& id) {
  const std::vector<double> factors = factors_of(table, axis);
  const bool effective = traits_of(table.metric).share;
  std::string rows = header_row(axis_headings(table, axis)) + "<tbody>\n";
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry, axis)) {
      rows += "<tr>" + name_cell(table, entry, colors, schedule);
      for (const double factor : factors) {
        rows += condition_cells(table, axis, factor, entry.row_cell(axis, factor, schedule));
      }
      if (effective) rows += effective_cell(effective_of(entry, axis, schedule));
      rows += "</tr>\n";
    }
  }
  rows += "</tbody>\n<tfoot>" + axis_foot(table, axis) + "</tfoot>\n";
  return wrapped(
      id, fmt::format("axis {}: {} at multiples of the trained length", axis, metric_title(table)),
      rows);
}

}  // namespace posenc::report
