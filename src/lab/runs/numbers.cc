#include "runs/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace posenc::runs {
namespace {

Value of_map(Value::Map map) { return {Value::Data(std::move(map))}; }

// Takes what is not finite out of a value, down to the next map; `notes` gets path and name.
Value taken_out(const Value& value, const std::string& path, Value::Map& notes) {
  if (const double* number = value.get_if<double>(); number && !std::isfinite(*number)) {
    notes.push_back({path, Value::of_string(number_text(*number))});
    return {};
  }
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) return without_non_finite(value);
  Value::List items;
  for (std::size_t i = 0; i < list->size(); ++i) {
    items.push_back(taken_out((*list)[i], fmt::format("{}[{}]", path, i), notes));
  }
  return {Value::Data(std::move(items))};
}

// The number that a note names, or the null as it was.
Value from_note(const Value& notes, const std::string& path) {
  const Value* note = notes.find(path);
  const auto* name = note == nullptr ? nullptr : note->get_if<std::string>();
  if (name == nullptr) return {};
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (*name == "nan") return {Value::Data(std::numeric_limits<double>::quiet_NaN())};
  if (*name == "inf") return {Value::Data(kInf)};
  if (*name == "-inf") return {Value::Data(-kInf)};
  return {};
}

Value put_back(const Value& value, const std::string& path, const Value& notes) {
  if (value.is_null()) return from_note(notes, path);
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) return with_non_finite(value);
  Value::List items;
  for (std::size_t i = 0; i < list->size(); ++i) {
    items.push_back(put_back((*list)[i], fmt::format("{}[{}]", path, i), notes));
  }
  return {Value::Data(std::move(items))};
}

}  // namespace

Value without_non_finite(const Value& value) {
  const auto* map = value.get_if<Value::Map>();
  if (map == nullptr) return value;
  Value::Map members;
  Value::Map notes;
  for (const Member& member : *map) {
    members.push_back({member.key, taken_out(member.value, member.key, notes)});
  }
  if (!notes.empty()) members.push_back({kNotFinite, of_map(std::move(notes))});
  return of_map(std::move(members));
}

Value with_non_finite(const Value& value) {
  const auto* map = value.get_if<Value::Map>();
  if (map == nullptr) return value;
  const Value* notes = value.find(kNotFinite);
  const Value none;
  Value::Map members;
  for (const Member& member : *map) {
    if (&member.value == notes) continue;
    members.push_back(
        {member.key, put_back(member.value, member.key, notes == nullptr ? none : *notes)});
  }
  return of_map(std::move(members));
}

}  // namespace posenc::runs
