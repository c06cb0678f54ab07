// The comparison for programs: JSON and CSV, with every digit.
#include <fmt/format.h>

#include <cmath>

#include "core/bind.h"
#include "report/tables.h"

namespace posenc::report {
namespace {

Value whole(std::size_t n) { return write_field(static_cast<std::int64_t>(n)); }
Value text(const std::string& s) { return Value::of_string(s); }
Value map(Value::Map members) { return {Value::Data(std::move(members))}; }

template <class List, class Write>
Value list(const List& items, const Write& write) {
  Value::List values;
  for (const auto& item : items) values.push_back(write(item));
  return {Value::Data(std::move(values))};
}

Value cell_value(const Cell& cell) {
  Value::Map members = {{"axis", text(cell.axis)},
                        {"factor", write_field(cell.factor)},
                        {"length", write_field(cell.length)},
                        {"n", whole(cell.n)}};
  if (!cell.schedule.empty()) members.push_back({"schedule", text(cell.schedule)});
  if (cell.n == 0) {
    members.push_back({"skipped", text(cell.skipped)});
    return map(std::move(members));
  }
  members.insert(members.end(), {{"value", write_field(cell.estimate.value)},
                                 {"low", write_field(cell.estimate.interval.low)},
                                 {"high", write_field(cell.estimate.interval.high)},
                                 {"lowest_seed", write_field(cell.lowest)},
                                 {"highest_seed", write_field(cell.highest)},
                                 {"chance", write_field(cell.chance)},
                                 {"trained_share", write_field(cell.trained_share)}});
  return map(std::move(members));
}

Value effective_value(const EffectiveLength& length) {
  return map({{"axis", text(length.axis)},
              {"schedule", text(length.schedule)},
              {"lowest", write_field(length.lowest)},
              {"median", write_field(length.median)},
              {"highest", write_field(length.highest)}});
}

Value entry_value(const Entry& entry, const TaskTable& table) {
  return map({{"encoding", text(entry.encoding)},
              {"variant", text(table.variants[entry.variant].name)},
              {"n", whole(entry.seeds.size())},
              {"seeds", list(entry.seeds, [](std::int64_t s) { return write_field(s); })},
              {"parameters", write_field(entry.parameters)},
              {"position_parameters", write_field(entry.position_parameters)},
              {"tokens_per_s", write_field(entry.tokens_per_s)},
              {"train_seconds", write_field(entry.train_seconds)},
              {"peak_memory_bytes", write_field(entry.peak_memory_bytes)},
              {"time_against_none", write_field(entry.cost)},
              {"effective_length", list(entry.effective, effective_value)},
              {"cells", list(entry.cells, cell_value)},
              {"runs", list(entry.paths, text)}});
}

Value table_value(const TaskTable& table) {
  return map(
      {{"task", text(table.task)},
       {"metric", text(table.metric)},
       {"threshold", write_field(table.threshold)},
       {"train_lengths", list(table.train_lengths, [](std::int64_t l) { return write_field(l); })},
       {"variants",
        list(table.variants,
             [](const Variant& v) {
               return map({{"name", text(v.name)}, {"settings", list(v.settings, text)}});
             })},
       {"entries", list(table.entries, [&](const Entry& e) { return entry_value(e, table); })},
       {"notes", list(table.notes, text)}});
}

Value ranking_value(const Ranking& ranking) {
  Value::List encodings;
  for (std::size_t i = 0; i < ranking.encodings.size(); ++i) {
    const runs::Estimate& e = ranking.reciprocal_rank[i];
    encodings.push_back(map({{"encoding", text(ranking.encodings[i])},
                             {"mean_reciprocal_rank", write_field(e.value)},
                             {"low", write_field(e.interval.low)},
                             {"high", write_field(e.interval.high)}}));
  }
  return map({{"what", text(ranking.what)},
              {"conditions", whole(ranking.tasks)},
              {"encodings", {Value::Data(std::move(encodings))}}});
}

// RFC 4180: quoted where it must be.
std::string field(const std::string& word) {
  if (word.find_first_of(",\"\n") == std::string::npos) return word;
  std::string quoted = "\"";
  for (const char c : word) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string number(double value) { return std::isnan(value) ? "" : posenc::number_text(value); }

std::string csv_row(const TaskTable& table, const Entry& entry, const Cell& cell) {
  const auto given = [](const std::optional<double>& value) {
    return value ? number(*value) : std::string();
  };
  const bool has = cell.n > 0;
  const auto figure = [&](double value) { return has ? number(value) : std::string(); };
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", field(table.task),
                     table.metric, table.variants[entry.variant].name, field(entry.encoding),
                     field(cell.schedule), field(cell.axis), cell.factor, cell.length, cell.n,
                     figure(cell.estimate.value), figure(cell.estimate.interval.low),
                     figure(cell.estimate.interval.high), figure(cell.chance),
                     given(cell.trained_share), entry.parameters, entry.position_parameters,
                     number(entry.tokens_per_s), given(entry.cost));
}

}  // namespace

Value to_value(const Comparison& comparison) {
  return map({{"tasks", list(comparison.tasks, table_value)},
              {"rankings", list(comparison.rankings, ranking_value)},
              {"left_out", list(comparison.left_out, text)}});
}

std::string to_csv(const Comparison& comparison) {
  std::string csv =
      "task,metric,variant,encoding,schedule,axis,factor,length,n,value,low,high,chance,"
      "trained_share,parameters,position_parameters,tokens_per_s,time_against_none\n";
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      for (const Cell& cell : entry.cells) csv += csv_row(table, entry, cell);
    }
  }
  return csv;
}

}  // namespace posenc::report
