#include "report/results.h"

#include "core/bind.h"

namespace posenc::report {
namespace {

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
    const Value* value = map_.find(name);
    if (value == nullptr) throw missing(name);
    read_field(*value, FieldContext{scope_, name, rule_}, field);
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

ResultRow read_row(const Value& value, const std::string& scope) {
  const Reader in(value, scope);
  ResultRow row;
  in.need("axis", row.axis);
  in.need("length", row.length);
  in.need("factor", row.factor);
  in.maybe("schedule", row.schedule);
  in.maybe("skipped", row.skipped);
  if (!row.skipped.empty()) return row;
  in.need("value", row.estimate.value);
  row.estimate.interval = {row.estimate.value, row.estimate.value};
  in.maybe("low", row.estimate.interval.low);
  in.maybe("high", row.estimate.interval.high);
  in.need("chance", row.chance);
  in.maybe("trained_share", row.trained_share);
  return row;
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
  in.need("seed", results.seed);
  in.need("train_length", results.train_length);
  in.need("metric", results.metric);
  in.maybe("step", results.step);
  in.maybe("threshold", results.threshold);
  in.maybe("tokens_per_s", results.tokens_per_s);
  in.maybe("train_seconds", results.train_seconds);
  in.maybe("peak_memory_bytes", results.peak_memory_bytes);
  if (const Value* counts = value.find("parameters")) {
    const auto* map = counts->get_if<Value::Map>();
    if (map == nullptr) throw in.missing("parameters");
    for (const Member& member : *map) {
      results.parameters.emplace_back(member.key, 0);
      Reader(*counts, scope).need(member.key, results.parameters.back().second);
    }
  }
  const Value* rows = value.find("rows");
  const auto* list = rows == nullptr ? nullptr : rows->get_if<Value::List>();
  if (list == nullptr) throw in.missing("rows");
  for (const Value& row : *list) results.rows.push_back(read_row(row, scope));
  return results;
}

}  // namespace posenc::report
