#include "core/bind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <numeric>

namespace posenc {
namespace {

Error field_error(ErrorKind kind, const FieldContext& context, const std::string& rule,
                  const Value& value, std::string hint = "") {
  return {kind,
          {.scope = std::string(context.scope),
           .key = std::string(context.name),
           .rule = rule,
           .value = describe(value) + mark_text(value.mark()),
           .hint = std::move(hint)}};
}

void check_range(double number, const FieldContext& context, const Value& value) {
  const FieldRule& rule = context.rule;
  const bool too_small = rule.open_min ? number <= rule.min : number < rule.min;
  if (!too_small && number <= rule.max) return;
  throw field_error(ErrorKind::kOutOfRange, context, "must be " + range_text(rule), value);
}

double read_number(const Value& value, const FieldContext& context) {
  double number = 0.0;
  if (const auto* integer = value.get_if<std::int64_t>()) {
    number = static_cast<double>(*integer);
  } else if (const auto* real = value.get_if<double>()) {
    number = *real;
  } else {
    throw field_error(ErrorKind::kWrongType, context, "must be a number", value);
  }
  if (!std::isfinite(number)) {
    throw field_error(ErrorKind::kNotFinite, context, "must be a finite number", value);
  }
  check_range(number, context, value);
  return number;
}

std::int64_t read_integer(const Value& value, const FieldContext& context) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double skips integers
  std::int64_t integer = 0;
  if (const auto* whole = value.get_if<std::int64_t>()) {
    integer = *whole;
  } else if (const auto* real = value.get_if<double>();
             real != nullptr && std::nearbyint(*real) == *real && std::abs(*real) <= kExact) {
    integer = static_cast<std::int64_t>(*real);
  } else {
    throw field_error(ErrorKind::kWrongType, context, "must be an integer", value);
  }
  check_range(static_cast<double>(integer), context, value);
  if (context.rule.even && integer % 2 != 0) {
    throw field_error(ErrorKind::kOutOfRange, context, "must be even", value);
  }
  return integer;
}

std::string read_word(const Value& value, const FieldContext& context) {
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) throw field_error(ErrorKind::kWrongType, context, "must be a word", value);
  return *text;
}

template <class Entry, class ReadOne>
std::vector<Entry> read_list(const Value& value, const FieldContext& context, ReadOne read_one) {
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) return {read_one(value, context)};
  if (list->empty()) {
    throw field_error(ErrorKind::kWrongLength, context, "must have at least one entry", value);
  }
  std::vector<Entry> entries;
  for (const ListEntry& entry : read_entries(value, context)) {
    entries.push_back(read_one(entry.value, {context.scope, entry.name, context.rule}));
  }
  return entries;
}

template <class Entry>
Value write_list(const std::vector<Entry>& entries) {
  if (entries.size() == 1) return write_field(entries.front());
  Value::List list;
  for (const Entry& entry : entries) list.push_back(write_field(entry));
  return {Value::Data(std::move(list))};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

void read_field(const Value& value, const FieldContext& context, bool& field) {
  const bool* truth = value.get_if<bool>();
  if (truth == nullptr) {
    throw field_error(ErrorKind::kWrongType, context, "must be true or false", value);
  }
  field = *truth;
}
void read_field(const Value& value, const FieldContext& context, std::int64_t& field) {
  field = read_integer(value, context);
}
void read_field(const Value& value, const FieldContext& context, double& field) {
  field = read_number(value, context);
}
void read_field(const Value& value, const FieldContext& context, std::string& field) {
  field = read_word(value, context);
}
void read_field(const Value& value, const FieldContext& context, std::optional<double>& field) {
  field.reset();
  if (!value.is_null()) field = read_number(value, context);
}
void read_field(const Value& value, const FieldContext& context, std::vector<double>& field) {
  field = read_list<double>(value, context, read_number);
}
void read_field(const Value& value, const FieldContext& context, std::vector<std::int64_t>& field) {
  field = read_list<std::int64_t>(value, context, read_integer);
}
void read_field(const Value& value, const FieldContext& context, std::vector<std::string>& field) {
  field = read_list<std::string>(value, context, read_word);
}

std::vector<ListEntry> read_entries(const Value& value, const FieldContext& context) {
  const auto* list = value.get_if<Value::List>();
  if (list == nullptr) {
    throw field_error(ErrorKind::kWrongType, context, "must be a list", value);
  }
  std::vector<ListEntry> entries;
  for (std::size_t i = 0; i < list->size(); ++i) {
    entries.push_back({fmt::format("{}[{}]", context.name, i), (*list)[i]});
  }
  return entries;
}

std::size_t read_choice(const Value& value, const FieldContext& context,
                        std::span<const std::string_view> names) {
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) {
    throw field_error(ErrorKind::kWrongType, context,
                      "must be one of " + fmt::format("{}", fmt::join(names, ", ")), value);
  }
  const auto found = std::find(names.begin(), names.end(), *text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw field_error(ErrorKind::kUnknownKey, context, "must be a known name", value,
                    suggestion(*text, names));
}

Value write_field(bool field) { return {Value::Data(field)}; }
Value write_field(std::int64_t field) { return {Value::Data(field)}; }
Value write_field(double field) {
  // Whole numbers are written as integers, so that 10000 and 1e4 have one canonical form.
  if (std::abs(field) < 1e15 && std::nearbyint(field) == field) {
    return {Value::Data(static_cast<std::int64_t>(field))};
  }
  return {Value::Data(field)};
}
Value write_field(const std::string& field) { return Value::of_string(field); }
Value write_field(const std::optional<double>& field) {
  return field.has_value() ? write_field(*field) : Value();
}
Value write_field(const std::vector<double>& field) { return write_list(field); }
Value write_field(const std::vector<std::int64_t>& field) { return write_list(field); }
Value write_field(const std::vector<std::string>& field) { return write_list(field); }

std::string range_text(const FieldRule& rule) {
  const bool has_min = std::isfinite(rule.min);
  const bool has_max = std::isfinite(rule.max);
  std::string text;
  if (has_min && has_max) {
    text = fmt::format("in {}{}, {}]", rule.open_min ? "(" : "[", number_text(rule.min),
                       number_text(rule.max));
  } else if (has_min) {
    text = fmt::format("{} {}", rule.open_min ? ">" : ">=", number_text(rule.min));
  } else if (has_max) {
    text = fmt::format("<= {}", number_text(rule.max));
  }
  if (rule.even) text += text.empty() ? "even" : " and even";
  return text;
}

std::string suggestion(std::string_view given, std::span<const std::string_view> names) {
  std::string_view best;
  std::size_t distance = std::max<std::size_t>(2, given.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t candidate = edit_distance(given, name);
    const bool extends = given.size() >= 3 && (name.starts_with(given) || given.starts_with(name));
    if (candidate < distance || (extends && best.empty())) {
      distance = std::min(distance, candidate);
      best = name;
    }
  }
  if (!best.empty()) return fmt::format("did you mean '{}'?", best);
  if (names.empty()) return "it takes no arguments";
  return fmt::format("known: {}", fmt::join(names, ", "));
}

NamedArguments read_named(const Value& value, std::string_view scope, std::string_view what) {
  const Value empty{Value::Data(Value::Map{}), value.mark()};
  if (const auto* name = value.get_if<std::string>()) return {*name, empty, value.mark()};
  const auto* map = value.get_if<Value::Map>();
  if (map == nullptr || map->size() != 1) {
    throw Error(ErrorKind::kWrongType, {.scope = std::string(scope),
                                        .key = std::string(what),
                                        .rule = "must be a name, or one name with its arguments",
                                        .value = describe(value) + mark_text(value.mark()),
                                        .hint = "for example yarn, or {yarn: {factor: 4}}"});
  }
  const Member& member = map->front();
  if (member.value.is_null()) return {member.key, empty, value.mark()};
  return {member.key, member.value, value.mark()};
}

FieldReader::FieldReader(const Value& map, std::string_view scope, std::string_view prefix)
    : map_(map), scope_(scope), prefix_(prefix) {
  if (map.get_if<Value::Map>() != nullptr) return;
  throw Error(ErrorKind::kWrongType, {.scope = std::string(scope),
                                      .key = std::string(prefix.substr(0, prefix.rfind('.'))),
                                      .rule = "takes named arguments",
                                      .value = describe(map) + mark_text(map.mark()),
                                      .hint = ""});
}

void FieldReader::missing(std::string_view name) const {
  throw Error(ErrorKind::kMissingKey, {.scope = std::string(scope_),
                                       .key = full_name(name),
                                       .rule = "is required" + mark_text(map_.mark()),
                                       .value = "",
                                       .hint = "add it"});
}

void FieldReader::finish() const {
  for (const Member& member : *map_.get_if<Value::Map>()) {
    if (std::find(names_.begin(), names_.end(), member.key) != names_.end()) continue;
    throw Error(ErrorKind::kUnknownKey, {.scope = std::string(scope_),
                                         .key = full_name(member.key),
                                         .rule = "is not a known key" + mark_text(member.key_mark),
                                         .value = "",
                                         .hint = suggestion(member.key, names_)});
  }
}

std::string type_text(const bool& /*field*/) { return "true or false"; }
std::string type_text(const std::int64_t& /*field*/) { return "integer"; }
std::string type_text(const double& /*field*/) { return "number"; }
std::string type_text(const std::string& /*field*/) { return "word"; }
std::string type_text(const std::optional<double>& /*field*/) { return "number or null"; }
std::string type_text(const std::vector<double>& /*field*/) { return "number or list"; }
std::string type_text(const std::vector<std::int64_t>& /*field*/) { return "integer or list"; }
std::string type_text(const std::vector<std::string>& /*field*/) { return "word or list"; }
std::string one_of(std::span<const std::string_view> names) {
  return fmt::format("one of {}", fmt::join(names, ", "));
}

std::string default_text(const Value& value) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* list = value.get_if<Value::List>(); list != nullptr && list->empty()) return "[]";
  return describe(value);
}

}  // namespace posenc
