// The comparison for programs: JSON and CSV, with every digit.
#include <fmt/format.h>
#include <fmt/ranges.h>

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

Value real(double value) { return write_field(value); }

// Positions `from` to `to`, both included, as results.json has them.
Value::Map position_members(const runs::PositionRange& positions) {
  return {{"from", write_field(positions.begin)}, {"to", write_field(positions.end - 1)}};
}

Value::Map figure_members(const RegionFigure& figure) {
  Value::Map members = position_members(figure.positions);
  members.insert(members.end(), {{"value", real(figure.mean)},
                                 {"low", figure.interval ? real(figure.interval->low) : Value()},
                                 {"high", figure.interval ? real(figure.interval->high) : Value()},
                                 {"chance", real(figure.chance)},
                                 {"seeds", list(figure.points, real)}});
  return members;
}

Value bucket_value(const PositionResult& bucket) {
  Value::Map members = position_members(bucket.positions);
  members.push_back({"value", real(bucket.value)});
  if (std::isfinite(bucket.chance)) members.push_back({"chance", real(bucket.chance)});
  return map(std::move(members));
}

Value depth_value(const DepthResult& depth) {
  return map(
      {{"from", real(depth.from)}, {"to", real(depth.to)}, {"accuracy", real(depth.accuracy)}});
}

// The headline's members stand in the cell itself, as in results.json.
Value cell_value(const Cell& cell) {
  Value::Map members = {{"axis", text(cell.axis)},
                        {"factor", write_field(cell.factor)},
                        {"length", write_field(cell.length)},
                        {"beyond_training", write_field(cell.beyond_training)},
                        {"n", whole(cell.n)},
                        {"failed", whole(cell.failed)}};
  if (!cell.schedule.empty()) members.push_back({"schedule", text(cell.schedule)});
  if (cell.n == 0) {
    members.push_back({"skipped", text(cell.skipped)});
    return map(std::move(members));
  }
  const Value::Map headline = figure_members(cell.headline());
  members.insert(members.end(), headline.begin(), headline.end());
  for (const runs::Region region : {runs::Region::kLastEighth, runs::Region::kAll}) {
    members.push_back(
        {std::string(runs::region_name(region)), map(figure_members(cell.region(region)))});
  }
  members.push_back({"trained_share", write_field(cell.trained_share)});
  members.push_back({"by_position", list(cell.by_position, bucket_value)});
  if (!cell.single.empty()) members.push_back({"single_answers", list(cell.single, real)});
  if (!cell.generated.empty()) members.push_back({"generated", list(cell.generated, real)});
  if (!cell.by_depth.empty()) members.push_back({"by_depth", list(cell.by_depth, depth_value)});
  return map(std::move(members));
}

Value effective_value(const EffectiveLength& length) {
  return map({{"axis", text(length.axis)},
              {"schedule", text(length.schedule)},
              {"lowest", write_field(length.lowest)},
              {"median", write_field(length.median)},
              {"highest", write_field(length.highest)}});
}

Value failed_value(const FailedRun& run) {
  return map(
      {{"seed", write_field(run.seed)}, {"run", text(run.path)}, {"remark", text(run.remark)}});
}

Value entry_value(const Entry& entry, const TaskTable& table) {
  return map(
      {{"encoding", text(entry.encoding)},
       {"variant", text(table.variants[entry.variant].name)},
       {"n", whole(entry.runs())},
       {"seeds", list(entry.seeds, [](std::int64_t s) { return write_field(s); })},
       {"failed", list(entry.failed, failed_value)},
       {"parameters", write_field(entry.parameters)},
       {"position_parameters", write_field(entry.position_parameters)},
       {"tokens_per_s", write_field(entry.tokens_per_s)},
       {"train_seconds", write_field(entry.train_seconds)},
       {"peak_memory_bytes", write_field(entry.peak_memory_bytes)},
       {"time_against_none", write_field(entry.cost)},
       {"used_positions", entry.used_positions ? write_field(*entry.used_positions) : Value()},
       {"effective_length", list(entry.effective, effective_value)},
       {"cells", list(entry.cells, cell_value)},
       {"runs", list(entry.paths, text)}});
}

Value finding_value(const statistics::Finding& finding) {
  return map({{"place", text(finding.place)}, {"text", text(finding.text)}});
}

Value best_value(const BackedBest& best, const TaskTable& table) {
  const Entry& entry = table.entries[best.entry];
  return map({{"what", write_field(best.merit)},
              {"encoding", text(entry.encoding)},
              {"schedule", text(best.schedule)},
              {"variant", text(table.variants[entry.variant].name)},
              {"support", text(best.support)}});
}

Value table_value(const TaskTable& table) {
  return map(
      {{"task", text(table.task)},
       {"metric", write_field(table.metric)},
       {"row_metric", write_field(table.row_metric)},
       {"threshold", write_field(table.threshold)},
       {"train_lengths", list(table.train_lengths, [](std::int64_t l) { return write_field(l); })},
       {"variants",
        list(table.variants,
             [](const Variant& v) {
               return map({{"name", text(v.name)}, {"settings", list(v.settings, text)}});
             })},
       {"findings", list(table.findings, finding_value)},
       {"best", list(table.best, [&](const BackedBest& b) { return best_value(b, table); })},
       {"entries", list(table.entries, [&](const Entry& e) { return entry_value(e, table); })},
       {"notes", list(table.notes, text)}});
}

// RFC 4180: quoted where it must be.
std::string field(const std::string& word) {
  if (word.find_first_of(",\"\n") == std::string::npos) return word;
  std::string quoted = "\"";
  for (const char c : word) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string number(double value) { return std::isnan(value) ? "" : posenc::number_text(value); }

std::string given(const std::optional<double>& value) { return value ? number(*value) : ""; }

std::string csv_figure(const RegionFigure& figure) {
  std::vector<std::string> seeds;
  for (const double point : figure.points) seeds.push_back(number(point));
  return fmt::format("{},{},{},{},{},{},{}", figure.positions.begin, figure.positions.end - 1,
                     number(figure.mean), figure.interval ? number(figure.interval->low) : "",
                     figure.interval ? number(figure.interval->high) : "", number(figure.chance),
                     fmt::join(seeds, " "));
}

std::string csv_row(const TaskTable& table, const Entry& entry, const Cell& cell,
                    runs::Region region) {
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", field(table.task),
                     name_of(table.metric), table.variants[entry.variant].name,
                     field(entry.encoding), field(cell.schedule), field(cell.axis), cell.factor,
                     cell.length, cell.beyond_training ? "yes" : "no", runs::region_name(region),
                     cell.n, cell.failed, cell.n > 0 ? csv_figure(cell.region(region)) : ",,,,,,",
                     given(cell.trained_share), entry.parameters, entry.position_parameters,
                     number(entry.tokens_per_s), given(entry.cost));
}

}  // namespace

Value to_value(const Comparison& comparison) {
  return map({{"tasks", list(comparison.tasks, table_value)},
              {"left_out", list(comparison.left_out, text)}});
}

std::string to_csv(const Comparison& comparison) {
  std::string csv =
      "task,metric,variant,encoding,schedule,axis,factor,length,beyond_training,region,n,failed,"
      "from,to,value,low,high,chance,seeds,trained_share,parameters,position_parameters,"
      "tokens_per_s,time_against_none\n";
  for (const TaskTable& table : comparison.tasks) {
    for (const Entry& entry : table.entries) {
      for (const Cell& cell : entry.cells) {
        for (const runs::Region region : runs::kRegions) csv += csv_row(table, entry, cell, region);
      }
    }
  }
  return csv;
}

}  // namespace posenc::report
