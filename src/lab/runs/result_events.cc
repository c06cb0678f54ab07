#include "runs/result_events.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "runs/protobuf.h"

namespace posenc::runs {
namespace {

using protobuf::bytes_field;
using protobuf::double_field;
using protobuf::integer_field;

constexpr std::string_view kPlugin = "hparams";
// What decides the trained model; the rest of a config is about its evaluation, or its name.
constexpr std::array<std::string_view, 4> kHyperparameters = {"seed", "task", "model", "train"};

// google.protobuf.Value: numbers are doubles, lists are text.
std::string proto_value(const Value& value) {
  if (const auto* flag = value.get_if<bool>()) return integer_field(4, *flag ? 1 : 0);
  if (const auto* whole = value.get_if<std::int64_t>()) {
    return double_field(2, static_cast<double>(*whole));
  }
  if (const auto* real = value.get_if<double>()) return double_field(2, *real);
  if (const auto* text = value.get_if<std::string>()) return bytes_field(3, *text);
  return bytes_field(3, to_json(value));
}

// Entries of the map SessionStartInfo.hparams, named like overrides: model.layers.
std::string hyperparameters(const std::string& name, const Value& value) {
  const auto* members = value.get_if<Value::Map>();
  if (members == nullptr || members->empty()) {
    return bytes_field(1, bytes_field(1, name) + bytes_field(2, proto_value(value)));
  }
  std::string entries;
  for (const Member& member : *members) {
    entries += hyperparameters(fmt::format("{}.{}", name, member.key), member.value);
  }
  return entries;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Without an experiment of its own, TensorBoard makes columns of the fields and scalars of all runs in its folder.
void add_session(EventWriter& events, const Value& config) {
  constexpr std::int64_t kSuccess = 1;
  std::string start;
  for (const std::string_view name : kHyperparameters) {
    if (const Value* value = config.find(name)) start += hyperparameters(std::string(name), *value);
  }
  start += double_field(5, now());
  const std::string end = integer_field(1, kSuccess) + double_field(2, now());
  events.plugin("_hparams_/session_start_info", kPlugin, bytes_field(3, start));
  events.plugin("_hparams_/session_end_info", kPlugin, bytes_field(4, end));
}

std::string text_of(const Value& row, std::string_view key) {
  const Value* member = row.find(key);
  const auto* text = member == nullptr ? nullptr : member->get_if<std::string>();
  return text == nullptr ? "" : *text;
}

// Of a condition: "results/longer_140/accuracy", or "results/longer_140_yarn/accuracy" under a schedule.
void add_row(EventWriter& events, const Value& row, const std::string& metric, std::int64_t step) {
  const Value* value = row.find("value");
  const auto* number = value == nullptr ? nullptr : value->get_if<double>();
  const Value* length = row.find("length");
  if (number == nullptr || length == nullptr) return;  // skipped, or not finite
  std::string schedule = text_of(row, "schedule");
  if (!schedule.empty()) schedule.insert(0, "_");
  events.scalar(fmt::format("results/{}_{}{}/{}", text_of(row, "axis"),
                            *length->get_if<std::int64_t>(), schedule, metric),
                step, *number);
}

}  // namespace

void add_result_events(EventWriter& events, const Value& config, const Value& results) {
  const Value* rows = results.find("rows");
  const Value* step = results.find("step");
  if (rows == nullptr || step == nullptr) return;
  for (const Value& row : *rows->get_if<Value::List>()) {
    add_row(events, row, text_of(results, "metric"), *step->get_if<std::int64_t>());
  }
  add_session(events, config);
}

}  // namespace posenc::runs
