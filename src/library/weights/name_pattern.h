// Patterns for names of tensors; convert.h defines them.
#pragma once

#include <optional>
#include <string_view>

#include "posenc/weights/convert.h"

namespace posenc::weights {

bool matches(std::string_view pattern, std::string_view name);

// What of a name comes after the module that a pattern names: "weight" of "h.0.attn.q_proj.weight",
// nothing where the pattern names the tensor itself. The shortest module counts.
std::optional<std::string_view> rest_after(std::string_view pattern, std::string_view name);
std::optional<std::string_view> rest_after(const Patterns& patterns, std::string_view name);

// Refuses patterns without a character.
void check_patterns(const Patterns& patterns, std::string_view option);

}  // namespace posenc::weights
