#include "report/results.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/bind.h"

namespace posenc::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Reader {
 public:
  Reader(const Value& map, std::string scope) : map_(map), scope_(std::move(scope)) {}

  // Leaves the field as it is where the file has null or nothing.
  template <class Field>
  void maybe(std::string_view name, Field& field) const {
    const Value* value = map_.find(name);
    if (value != nullptr && !value->is_null()) {
      read_field(*value, FieldContext{scope_, name, rule_}, field);
    }
  }
  template <class Field>
  void need(std::string_view name, Field& field) const {
    read_field(member(name), FieldContext{scope_, name, rule_}, field);
  }
  [[nodiscard]] const Value* find(std::string_view name) const { return map_.find(name); }
  [[nodiscard]] const Value& member(std::string_view name) const {
    const Value* value = find(name);
    if (value == nullptr) throw missing(name);
    return *value;
  }
  // Nothing where there is no such list.
  [[nodiscard]] std::vector<Reader> maybe_list(std::string_view name) const {
    const Value* value = map_.find(name);
    const auto* list = value == nullptr ? nullptr : value->get_if<Value::List>();
    std::vector<Reader> readers;
    if (list == nullptr) return readers;
    for (const Value& item : *list) readers.emplace_back(item, scope_);
    return readers;
  }
  [[nodiscard]] Error missing(std::string_view name) const {
    return {ErrorKind::kMissingKey,
            {.scope = scope_,
             .key = std::string(name),
             .rule = "is required",
             .value = "",
             .hint = "evaluate the run again with posenc eval"}};
  }

 private:
  const Value& map_;
  std::string scope_;
  FieldRule rule_;
};

// The file counts both ends in; ranges leave the last one out.
runs::PositionRange read_positions(const Reader& in) {
  runs::PositionRange positions;
  in.need("from", positions.begin);
  in.need("to", positions.end);
  ++positions.end;
  return positions;
}

RegionResult read_region(const Reader& in) {
  RegionResult region{.positions = read_positions(in)};
  in.need("value", region.estimate.value);
  region.estimate.interval = {region.estimate.value, region.estimate.value};
  in.maybe("low", region.estimate.interval.low);
  in.maybe("high", region.estimate.interval.high);
  // One row or document has no interval: its ends are infinite, which JSON writes as null.
  const Value* low = in.find("low");
  if (low != nullptr && low->is_null()) region.estimate.interval = {-kInfinity, kInfinity};
  in.need("chance", region.chance);
  std::int64_t scored = 0;
  std::int64_t correct = 0;
  in.maybe("scored", scored);
  in.maybe("correct", correct);
  if (scored > 0) region.right = static_cast<double>(correct) / static_cast<double>(scored);
  return region;
}

double position_value(const Reader& in, double scored, Metric metric) {
  if (in_bits(metric)) {
    double loss = kNaN;
    in.maybe("loss", loss);
    return loss / std::numbers::ln2;
  }
  std::int64_t correct = 0;
  in.need("correct", correct);
  const double accuracy = static_cast<double>(correct) / scored;
  return metric == Metric::kError ? 1.0 - accuracy : accuracy;
}

std::vector<PositionResult> read_by_position(const Reader& row, const Results& results) {
  std::vector<PositionResult> buckets;
  for (const Reader& in : row.maybe_list("by_position")) {
    std::int64_t scored = 0;
    in.need("scored", scored);
    if (scored == 0) continue;
    PositionResult bucket{.positions = read_positions(in), .chance = kNaN};
    bucket.value = position_value(in, static_cast<double>(scored), results.metric);
    in.maybe("chance", bucket.chance);
    buckets.push_back(bucket);
  }
  return buckets;
}

std::vector<DepthResult> read_by_depth(const Reader& row) {
  std::vector<DepthResult> buckets;
  for (const Reader& in : row.maybe_list("by_depth")) {
    DepthResult bucket;
    std::int64_t rows = 0;
    std::int64_t right = 0;
    in.need("from", bucket.from);
    in.need("to", bucket.to);
    in.need("rows", rows);
    in.need("right", right);
    bucket.accuracy = rows == 0 ? kNaN : static_cast<double>(right) / static_cast<double>(rows);
    buckets.push_back(bucket);
  }
  return buckets;
}

// Whole rows where the metric is of those, else single answers.
std::optional<double> read_generated(const Reader& row, const Results& results,
                                     const std::string& scope) {
  const Value* generated = row.find("free_running");
  if (generated == nullptr) return std::nullopt;
  double right = 0.0;
  Reader(Reader(*generated, scope).member(results.row_metric ? "rows" : "tokens"), scope)
      .need("value", right);
  return results.metric == Metric::kError ? 1.0 - right : right;
}

ResultRow read_row(const Reader& in, const Results& results, const std::string& scope) {
  ResultRow row;
  in.need("axis", row.axis);
  in.need("length", row.length);
  in.need("factor", row.factor);
  in.maybe("schedule", row.schedule);
  in.maybe("skipped", row.skipped);
  if (!row.skipped.empty()) return row;
  in.need("beyond_training", row.beyond_training);
  row.regions[0] = read_region(in);
  for (const runs::Region region : {runs::Region::kLastEighth, runs::Region::kAll}) {
    const Reader part(in.member(runs::region_name(region)), scope);
    row.regions[static_cast<std::size_t>(region)] = read_region(part);
  }
  in.maybe("trained_share", row.trained_share);
  row.by_position = read_by_position(in, results);
  row.by_depth = read_by_depth(in);
  row.generated = read_generated(in, results, scope);
  return row;
}

void read_parameters(const Value& value, const std::string& scope, Results& results) {
  const Value* counts = value.find("parameters");
  if (counts == nullptr) return;
  const auto* map = counts->get_if<Value::Map>();
  if (map == nullptr) throw Reader(value, scope).missing("parameters");
  for (const Member& member : *map) {
    results.parameters.emplace_back(member.key, 0);
    Reader(*counts, scope).need(member.key, results.parameters.back().second);
  }
}

}  // namespace

std::int64_t Results::parameters_of(std::string_view part) const {
  for (const auto& [name, count] : parameters) {
    if (name == part) return count;
  }
  return 0;
}

Results read_results(const Value& value, const std::string& scope) {
  const Reader in(value, scope);
  Results results;
  in.need("task", results.task);
  in.need("encoding", results.encoding);
  in.maybe("config_hash", results.config_hash);
  in.need("eval_hash", results.eval_hash);
  results.eval = in.member("eval");
  in.need("seed", results.seed);
  in.need("train_length", results.train_length);
  in.need("metric", results.metric);
  in.need("row_metric", results.row_metric);
  in.maybe("step", results.step);
  in.maybe("threshold", results.threshold);
  in.maybe("tokens_per_s", results.tokens_per_s);
  in.maybe("train_seconds", results.train_seconds);
  in.maybe("peak_memory_bytes", results.peak_memory_bytes);
  read_parameters(value, scope, results);
  if (in.member("rows").get_if<Value::List>() == nullptr) throw in.missing("rows");
  for (const Reader& row : in.maybe_list("rows")) {
    results.rows.push_back(read_row(row, results, scope));
  }
  return results;
}

}  // namespace posenc::report
