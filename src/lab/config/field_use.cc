#include "config/field_use.h"

#include <algorithm>

#include "config/load.h"
#include "core/bind.h"
#include "core/strings.h"

namespace posenc::config {
namespace {

std::string text_of(const Value& value) {
  const auto* word = value.get_if<std::string>();
  return word != nullptr ? *word : to_json(value);
}

bool holds(std::string_view condition, const Value& part) {
  const std::size_t equals = condition.find('=');
  const Value* other = part.find(condition.substr(0, equals));
  if (other == nullptr) return true;
  const std::vector<std::string_view> values = split(condition.substr(equals + 1), ',');
  return std::find(values.begin(), values.end(), text_of(*other)) != values.end();
}

// Visits the fields of a part and the parts below it.
struct UnreadVisitor {
  const Value& part;
  std::string prefix;
  std::vector<std::string>& found;

  template <class Field>
  void operator()(std::string_view name, const Field& field, const FieldRule& /*rule*/) const {
    if constexpr (FieldListed<Field>) {
      const Value* below = part.find(name);
      if (below == nullptr) return;
      Field::visit_fields(field, UnreadVisitor{*below, prefix + std::string(name) + ".", found});
    }
  }
  template <class Field>
  void operator()(std::string_view name, const Field& /*field*/, const ReadIf& rule) const {
    if (!holds(rule.condition, part)) found.push_back(prefix + std::string(name));
  }
};

}  // namespace

std::vector<std::string> unread_fields(const Value& tree) {
  std::vector<std::string> found;
  const LabConfig defaults;
  LabConfig::visit_fields(defaults, UnreadVisitor{tree, "", found});
  return found;
}

}  // namespace posenc::config
