// Names that other systems and papers use, and what to write in a spec instead.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/bind.h"

namespace posenc {

// A spec with an encoding, a schedule or axes by name, and the fields that it requires at example values:
// "rope(schedule=linear(factor=4))". Empty for other names.
std::string example_spec(std::string_view name);

// The name of an encoding, a schedule or axes that another name means: "rope" for rotary. Empty where there is none.
std::string known_name(std::string_view other_name);

// What to write in a spec for such a name: "rope" for rotary, an example for a schedule.
std::string spec_instead_of(std::string_view other_name);

// An Error that names the right form where `name` is such a name and not one of `known`.
void refuse_other_name(const Value& name, const FieldContext& context,
                       std::span<const std::string_view> known);

}  // namespace posenc
