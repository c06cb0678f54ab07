#include "report/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "report/words.h"

namespace posenc::report {
namespace {

constexpr std::size_t kLongestLabel = 17;

// A terminal has little room and its own columns for seeds; a document has the page's columns.
enum class Form { kTerminal, kDocument };

// In a terminal long specs are shortened and spelled out below the table, each once.
class Labels {
 public:
  Labels(const TaskTable& table, Form form) : table_(table), form_(form) {}

  std::string of(const Entry& entry, const std::string& schedule = "") {
    const std::string label = row_name(entry.encoding, schedule);
    const std::string& variant = table_.variants[entry.variant].name;
    const std::string tail = variant.empty() ? "" : fmt::format(" [{}]", variant);
    const bool fits = label.size() + tail.size() <= kLongestLabel;
    if (fits || form_ == Form::kDocument) return label + tail;
    return shortened(label, kLongestLabel - tail.size()) + tail;
  }
  [[nodiscard]] std::vector<std::string> legend() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < long_.size(); ++i) {
      lines.push_back(fmt::format("#{} {}", i + 1, long_[i]));
    }
    return lines;
  }

 private:
  std::string shortened(const std::string& label, std::size_t room) {
    auto found = std::find(long_.begin(), long_.end(), label);
    if (found == long_.end()) found = long_.insert(long_.end(), label);
    const std::string mark = fmt::format("#{} ", found - long_.begin() + 1);
    return mark + label.substr(0, room - mark.size() - 2) + "..";
  }

  const TaskTable& table_;
  Form form_;
  std::vector<std::string> long_;
};

// A row of a table: an entry under a schedule, its own where that is empty.
struct RowOf {
  const Entry& entry;
  std::string schedule;
};

struct Column {
  std::string heading;
  std::function<std::string(const RowOf&)> figure;
  std::string chance = {};
  std::string trained = {};  // share of the answers that training had
};

std::vector<Column> overview_columns(const TaskTable& table, Form form) {
  const Metric metric = table.metric;
  const auto in_domain = [](const RowOf& row) { return row.entry.cell(kInDomain, 1); };
  std::vector<Column> columns = {
      {form == Form::kDocument ? "runs" : "n",
       [](const RowOf& row) { return runs_text(row.entry); }},
      {"in domain", [=](const RowOf& row) { return headline_text(in_domain(row), metric); },
       chance_text(table, kInDomain, 1)}};
  if (form == Form::kDocument && has_beyond(table)) {
    columns.push_back({"beyond training",
                       [&table](const RowOf& row) { return beyond_mean_text(table, row.entry); }});
  }
  if (form == Form::kTerminal && has_intervals(table)) {
    columns.push_back({"in domain seeds", [=](const RowOf& row) {
                         return points_text(in_domain(row), runs::Region::kHeadline, metric);
                       }});
  }
  const auto add = [&](const char* heading, std::string (*text)(const Entry&)) {
    columns.push_back({heading, [text](const RowOf& row) { return text(row.entry); }});
  };
  add("parameters", [](const Entry& e) { return std::to_string(e.parameters); });
  add("of positions", [](const Entry& e) { return std::to_string(e.position_parameters); });
  add("tokens/s", [](const Entry& e) { return speed_text(e.tokens_per_s); });
  add("time against none", cost_text);
  if (form == Form::kDocument) add("peak memory (MiB)", memory_text);
  return columns;
}

// The headline of a condition, what a longer row has besides, and the points.
void add_condition(const TaskTable& table, const std::string& axis, double factor, Form form,
                   std::vector<Column>& columns) {
  const std::string length = fmt::format("{:.3g}x", factor);
  const Metric metric = table.metric;
  const auto cell = [=](const RowOf& row) {
    return row.entry.row_cell(axis, factor, row.schedule);
  };
  columns.push_back({length, [=](const RowOf& row) { return headline_text(cell(row), metric); },
                     chance_text(table, axis, factor), trained_text(table, axis, factor)});
  const auto add_region = [&](const char* name, runs::Region region) {
    columns.push_back({length + name,
                       [=](const RowOf& row) { return mean_text(cell(row), region, metric); },
                       chance_text(table, axis, factor, region)});
  };
  if (has_regions(table, axis, factor)) {
    add_region(" last 1/8", runs::Region::kLastEighth);
    add_region(" all", runs::Region::kAll);
  }
  for (const ExtraColumn& extra : kExtraColumns) {
    if (!has_figures(table, axis, factor, extra.figures)) continue;
    columns.push_back(
        {fmt::format("{} {}", length, extra.name), [=, figures = extra.figures](const RowOf& row) {
           return seeds_mean_text(cell(row), figures, metric);
         }});
  }
  if (form == Form::kDocument || !has_intervals(table)) return;
  columns.push_back({length + " seeds", [=](const RowOf& row) {
                       return points_text(cell(row), runs::Region::kHeadline, metric);
                     }});
}

std::vector<Column> axis_columns(const TaskTable& table, const std::string& axis, Form form) {
  std::vector<Column> columns;
  for (const double factor : factors_of(table, axis)) {
    add_condition(table, axis, factor, form, columns);
  }
  if (!traits_of(table.metric).share) return columns;
  columns.push_back(
      {form == Form::kDocument ? "effective length" : "effective", [=](const RowOf& row) {
         const auto* length = effective_of(row.entry, axis, row.schedule);
         return length == nullptr ? std::string(kNothing) : effective_text(*length);
       }});
  return columns;
}

void add_shared_row(const std::string& name, const std::vector<Column>& columns,
                    std::string Column::*text, TextTable& table) {
  std::vector<std::string> row = {name};
  for (const Column& column : columns) row.push_back(column.*text);
  table.rows.push_back(std::move(row));
  ++table.shared_rows;
}

TextTable filled(const TaskTable& table, const std::vector<RowOf>& rows,
                 const std::vector<Column>& columns, Form form) {
  TextTable text{.header = {"encoding"}};
  for (const Column& column : columns) text.header.push_back(column.heading);
  Labels labels(table, form);
  for (const RowOf& row : rows) {
    std::vector<std::string> cells = {labels.of(row.entry, row.schedule)};
    for (const Column& column : columns) cells.push_back(column.figure(row));
    text.rows.push_back(std::move(cells));
  }
  add_shared_row("chance", columns, &Column::chance, text);
  text.notes = labels.legend();
  return text;
}

TextTable overview(const TaskTable& table, Form form) {
  std::vector<RowOf> rows;
  for (const Entry& entry : table.entries) rows.push_back({entry, ""});
  TextTable text = filled(table, rows, overview_columns(table, form), form);
  text.title = fmt::format("{}: {}, trained at length {}", table.task, metric_title(table),
                           fmt::join(table.train_lengths, ", "));
  text.notes.insert(text.notes.end(), table.notes.begin(), table.notes.end());
  if (any_failed(table)) text.notes.push_back(failure_note(table.metric));
  if (table.axes.empty()) return text;
  text.notes.push_back(regions_note());
  if (traits_of(table.metric).share) text.notes.push_back(effective_note(table));
  return text;
}

std::vector<RowOf> axis_rows(const TaskTable& table, const std::string& axis) {
  std::vector<RowOf> rows;
  for (const Entry& entry : table.entries) {
    for (const std::string& schedule : schedules_of(entry, axis)) rows.push_back({entry, schedule});
  }
  return rows;
}

TextTable axis_table(const TaskTable& table, const std::string& axis, Form form) {
  const std::vector<Column> columns = axis_columns(table, axis, form);
  TextTable text = filled(table, axis_rows(table, axis), columns, form);
  text.title = fmt::format("{}, axis {}: {} at multiples of the trained length", table.task, axis,
                           metric_title(table));
  const std::vector<double> factors = factors_of(table, axis);
  for (const ExtraColumn& extra : kExtraColumns) {
    const bool shown = std::any_of(factors.begin(), factors.end(), [&](double factor) {
      return has_figures(table, axis, factor, extra.figures);
    });
    if (shown) text.notes.emplace_back(extra.note);
  }
  // Answers that training never had put a ceiling on any encoding.
  if (has_untrained(table, axis)) {
    add_shared_row("answers trained %", columns, &Column::trained, text);
  }
  return text;
}

std::string curve_line(const Cell* cell, CurveScale scale, CurveLetters letters, bool chance) {
  if (cell == nullptr || !has_curve(*cell)) return kNothing;
  std::vector<double> values;
  for (const PositionResult& bucket : cell->by_position) {
    values.push_back(chance ? bucket.chance : bucket.value);
  }
  return sparkline(values, cell->by_position, trained_length(*cell), scale, letters);
}

// Curves by position of the conditions beyond training; nothing where none has one.
std::optional<TextTable> curve_table(const TaskTable& table, const std::string& axis,
                                     CurveLetters letters) {
  const CurveScale scale = curve_scale(table);
  std::vector<Column> columns;
  for (const double factor : factors_of(table, axis)) {
    const Cell* first = first_curve(table, axis, factor);
    if (first == nullptr) continue;
    columns.push_back({fmt::format("{:.3g}x", factor),
                       [=](const RowOf& row) {
                         return curve_line(row.entry.row_cell(axis, factor, row.schedule), scale,
                                           letters, false);
                       },
                       curve_line(first, scale, letters, true)});
  }
  if (columns.empty()) return std::nullopt;
  TextTable text = filled(table, axis_rows(table, axis), columns, Form::kTerminal);
  if (!traits_of(table.metric).share)
    text.rows.pop_back(), --text.shared_rows;  // of bits no chance is worth the name
  text.title =
      fmt::format("{}, axis {}: {}{} by position", table.task, axis, traits_of(table.metric).title,
                  table.row_metric ? " of single answers" : "");
  text.notes.push_back(fmt::format(
      "a letter per stretch of positions, from {} (lowest) to {}; | is the trained length",
      figure_text(scale.low, table.metric), figure_text(scale.high, table.metric)));
  return text;
}

}  // namespace

std::vector<TextTable> text_tables(const Comparison& comparison, CurveLetters letters) {
  std::vector<TextTable> tables;
  for (const TaskTable& table : comparison.tasks) {
    tables.push_back(overview(table, Form::kTerminal));
    for (const std::string& axis : table.axes) {
      tables.push_back(axis_table(table, axis, Form::kTerminal));
      if (auto curves = curve_table(table, axis, letters)) tables.push_back(std::move(*curves));
    }
  }
  return tables;
}

std::vector<TextTable> document_tables(const TaskTable& table) {
  std::vector<TextTable> tables = {overview(table, Form::kDocument)};
  for (const std::string& axis : table.axes) {
    tables.push_back(axis_table(table, axis, Form::kDocument));
  }
  return tables;
}

}  // namespace posenc::report
