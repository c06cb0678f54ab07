// The visitors over a config's field list (posenc/core/fields.h): read, write, describe.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/value.h"
#include "posenc/core/fields.h"

namespace posenc {

template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T e) {
  enum_names(e);
};

// What an error about a field is signed with, and the rule that the field must keep.
struct FieldContext {
  std::string_view scope;
  std::string_view name;
  const FieldRule& rule;
};

// Reading one value into one field. Each throws an Error that names key, rule and value.
void read_field(const Value& value, const FieldContext& context, bool& field);
void read_field(const Value& value, const FieldContext& context, std::int64_t& field);
void read_field(const Value& value, const FieldContext& context, double& field);
void read_field(const Value& value, const FieldContext& context, std::string& field);
void read_field(const Value& value, const FieldContext& context, std::optional<double>& field);
void read_field(const Value& value, const FieldContext& context, std::vector<double>& field);
void read_field(const Value& value, const FieldContext& context, std::vector<std::int64_t>& field);
void read_field(const Value& value, const FieldContext& context, std::vector<std::string>& field);

// Index of a name among the allowed ones, or an Error with a suggestion.
std::size_t read_choice(const Value& value, const FieldContext& context,
                        std::span<const std::string_view> names);

// Writing one field; a list of one number is written as that number.
Value write_field(bool field);
Value write_field(std::int64_t field);
Value write_field(double field);
Value write_field(const std::string& field);
Value write_field(const std::optional<double>& field);
Value write_field(const std::vector<double>& field);
Value write_field(const std::vector<std::int64_t>& field);
Value write_field(const std::vector<std::string>& field);

std::string range_text(const FieldRule& rule);
// The nearest of the names, as "did you mean 'theta'?", or the list of all when none is near.
std::string suggestion(std::string_view given, std::span<const std::string_view> names);

// "rope" or {rope: {...}}: a name and its arguments (an empty map when there are none).
struct NamedArguments {
  std::string name;
  Value arguments;
  Mark mark;
};
NamedArguments read_named(const Value& value, std::string_view scope, std::string_view what);

// --- reading a whole config ---------------------------------------------------------------------

// `prefix` stands before the names of the fields in errors: "model." for a config within another.
template <class Config>
Config bind_config(const Value& map, std::string_view scope, std::string_view prefix = "");

// A config that is a field of another.
template <class T>
concept FieldListed = requires(T& config) {
  T::visit_fields(config, [](std::string_view, auto&, const FieldRule&) {});
};

template <FieldListed Config>
void read_field(const Value& value, const FieldContext& context, Config& field) {
  field = bind_config<Config>(value, context.scope, std::string(context.name) + ".");
}

// The entries of a list, each with the name that errors give it: "stages[2]".
struct ListEntry {
  std::string name;
  const Value& value;
};
std::vector<ListEntry> read_entries(const Value& value, const FieldContext& context);

template <FieldListed Config>
void read_field(const Value& value, const FieldContext& context, std::vector<Config>& field) {
  field.clear();
  for (const ListEntry& entry : read_entries(value, context)) {
    field.push_back(bind_config<Config>(entry.value, context.scope, entry.name + "."));
  }
}

template <NamedEnum E>
void read_field(const Value& value, const FieldContext& context, E& field) {
  const auto names = enum_names(E{});
  field = static_cast<E>(read_choice(value, context, names));
}

template <class... Configs>
constexpr std::array<std::string_view, sizeof...(Configs)> alternative_names(
    const std::variant<Configs...>* /*tag*/) {
  return {Configs::kTraits.name...};
}

// Reads the alternative whose name is given; the compiler writes one branch per alternative.
template <class... Configs>
std::variant<Configs...> bind_alternative(const NamedArguments& named,
                                          const FieldContext& context) {
  using Variant = std::variant<Configs...>;
  const auto names = alternative_names(static_cast<const Variant*>(nullptr));
  const std::size_t index = read_choice(Value::of_string(named.name, named.mark), context, names);
  using Reader = Variant (*)(const Value&, std::string_view);
  constexpr std::array<Reader, sizeof...(Configs)> kReaders = {
      [](const Value& map, std::string_view scope) -> Variant {
        return bind_config<Configs>(map, scope);
      }...};
  return kReaders[index](named.arguments, names[index]);
}

template <class... Configs>
void read_field(const Value& value, const FieldContext& context, std::variant<Configs...>& field) {
  field = bind_alternative<Configs...>(read_named(value, context.scope, context.name), context);
}

class FieldReader {
 public:
  FieldReader(const Value& map, std::string_view scope, std::string_view prefix = "");

  template <class Field>
  void operator()(std::string_view name, Field& field, const FieldRule& rule) {
    names_.push_back(name);
    const Value* value = map_.find(name);
    if (value != nullptr) {
      read_field(*value, FieldContext{scope_, full_name(name), rule}, field);
    } else if (rule.required) {
      missing(name);
    }
  }

  // Every key has been asked for, or an Error names the first that was not.
  void finish() const;

 private:
  [[noreturn]] void missing(std::string_view name) const;
  [[nodiscard]] std::string full_name(std::string_view name) const {
    return std::string(prefix_).append(name);
  }

  const Value& map_;
  std::string_view scope_;
  std::string_view prefix_;
  std::vector<std::string_view> names_;
};

template <class Config>
Config bind_config(const Value& map, std::string_view scope, std::string_view prefix) {
  Config config;
  FieldReader reader(map, scope, prefix);
  Config::visit_fields(config, reader);
  reader.finish();
  return config;
}

// --- writing a whole config ---------------------------------------------------------------------

template <class Config>
Value config_arguments(const Config& config);

inline Value named_value(std::string_view name, Value arguments) {
  if (arguments.get_if<Value::Map>()->empty()) return Value::of_string(std::string(name));
  return {Value::Data(Value::Map{{std::string(name), std::move(arguments)}})};
}

template <NamedEnum E>
Value write_field(E field) {
  return Value::of_string(std::string(enum_name(field)));
}

template <class... Configs>
Value write_field(const std::variant<Configs...>& field) {
  return std::visit(
      [](const auto& config) {
        return named_value(std::decay_t<decltype(config)>::kTraits.name, config_arguments(config));
      },
      field);
}

template <class Config>
Value::Map all_fields(const Config& config);

template <FieldListed Config>
Value write_field(const Config& field) {
  return {Value::Data(all_fields(field))};
}
template <FieldListed Config>
Value write_field(const std::vector<Config>& field) {
  Value::List list;
  for (const Config& entry : field) list.push_back(write_field(entry));
  return {Value::Data(std::move(list))};
}

// Every field by name, defaults included.
template <class Config>
Value::Map all_fields(const Config& config) {
  Value::Map map;
  Config::visit_fields(config, [&](std::string_view name, const auto& field, const FieldRule&) {
    map.push_back({std::string(name), write_field(field)});
  });
  return map;
}

// Only what differs from the default (and what has none): the canonical form.
template <class Config>
Value config_arguments(const Config& config) {
  const Value::Map defaults = all_fields(Config{});
  Value::Map map;
  std::size_t index = 0;
  Config::visit_fields(config,
                       [&](std::string_view name, const auto& field, const FieldRule& rule) {
                         Value value = write_field(field);
                         if (rule.required || value != defaults[index].value) {
                           map.push_back({std::string(name), std::move(value)});
                         }
                         ++index;
                       });
  return {Value::Data(std::move(map))};
}

// --- describing ---------------------------------------------------------------------------------

std::string type_text(const bool& field);
std::string type_text(const std::int64_t& field);
std::string type_text(const double& field);
std::string type_text(const std::string& field);
std::string type_text(const std::optional<double>& field);
std::string type_text(const std::vector<double>& field);
std::string type_text(const std::vector<std::int64_t>& field);
std::string type_text(const std::vector<std::string>& field);
std::string one_of(std::span<const std::string_view> names);

template <NamedEnum E>
std::string type_text(const E& /*field*/) {
  const auto names = enum_names(E{});
  return one_of(names);
}

template <FieldListed Config>
std::string type_text(const Config& /*field*/) {
  return "map";
}
template <FieldListed Config>
std::string type_text(const std::vector<Config>& /*field*/) {
  return "list of maps";
}

template <class... Configs>
std::string type_text(const std::variant<Configs...>& field) {
  const auto names = alternative_names(&field);
  return one_of(names);
}

std::string default_text(const Value& value);

template <class Config>
std::vector<FieldDoc> describe_fields() {
  std::vector<FieldDoc> docs;
  const Config defaults;
  Config::visit_fields(
      defaults, [&](std::string_view name, const auto& field, const FieldRule& rule) {
        docs.push_back({std::string(name), type_text(field),
                        rule.required ? "required" : default_text(write_field(field)),
                        range_text(rule), std::string(rule.doc), rule});
      });
  return docs;
}

}  // namespace posenc
