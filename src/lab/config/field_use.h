// Fields that have no effect in a run, because of another field's value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"
#include "posenc/core/fields.h"

namespace posenc::config {

// The rule of a field that is read only if another field of the same part has one of some values:
// "attention=linear", "optimizer=adamw,adam".
struct ReadIf : FieldRule {
  std::string_view condition;
};

// The fields of a resolved config that have no effect: "model.linear_form" with softmax attention. A field
// counts as read if the tree does not have the other one.
std::vector<std::string> unread_fields(const Value& tree);

}  // namespace posenc::config
