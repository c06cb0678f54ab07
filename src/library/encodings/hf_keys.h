// Keys of a config.json under the different names that model families use.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/bind.h"
#include "core/value.h"

namespace posenc {

// A view of one map of the file; a null value counts as an absent key, as it does in Python's
// config classes. The map must outlive the view.
class HfKeys {
 public:
  using Names = std::span<const std::string_view>;

  // `scope` signs the errors; a value that is no map is refused.
  HfKeys(const Value& map, std::string scope);

  [[nodiscard]] const std::string& scope() const { return scope_; }
  [[nodiscard]] const Value::Map& members() const { return *map_->get_if<Value::Map>(); }
  [[nodiscard]] const Value* find(std::string_view key) const;
  // Written in the file, be it as null.
  [[nodiscard]] bool mentions(std::string_view key) const { return map_->find(key) != nullptr; }

  template <class Field>
  [[nodiscard]] std::optional<Field> get(std::string_view key, const FieldRule& rule = {}) const {
    const Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    Field field{};
    read_field(*value, FieldContext{scope_, key, rule}, field);
    return field;
  }

  // The value under whichever of the names is present; two names must not disagree.
  template <class Field>
  [[nodiscard]] std::optional<Field> any(Names names, const FieldRule& rule = {}) const {
    std::optional<Field> result;
    std::string_view source;
    for (const std::string_view name : names) {
      const std::optional<Field> here = get<Field>(name, rule);
      if (here && result && *here != *result) throw contradiction(name, source);
      if (here && !result) source = name;
      if (here) result = here;
    }
    return result;
  }

  template <class Field>
  [[nodiscard]] std::optional<Field> any(std::initializer_list<std::string_view> names,
                                         const FieldRule& rule = {}) const {
    return any<Field>(Names(names.begin(), names.size()), rule);
  }

  // The value under the first of the names that is present, whatever the others say.
  template <class Field>
  [[nodiscard]] std::optional<Field> first(std::initializer_list<std::string_view> names,
                                           const FieldRule& rule = {}) const {
    for (const std::string_view name : names) {
      if (const std::optional<Field> here = get<Field>(name, rule)) return here;
    }
    return std::nullopt;
  }

  // As `any`, and an error that lists the names when none is present.
  [[nodiscard]] std::int64_t require(Names names, const FieldRule& rule) const;
  // The map under a key, if there is one.
  [[nodiscard]] std::optional<HfKeys> child(std::string_view key) const;

  [[nodiscard]] Error error(ErrorKind kind, std::string_view key, const std::string& rule,
                            const std::string& value = "", const std::string& hint = "") const;
  [[nodiscard]] Error contradiction(std::string_view key, std::string_view other) const;

 private:
  const Value* map_;
  std::string scope_;
};

}  // namespace posenc
