// What can be chosen, as JSON: encodings, schedules and plots with their fields, defaults and words.
#pragma once

#include <string>
#include <string_view>

namespace posenc::web {

std::string catalog_json();

// A spec in its text form or as JSON, spelt out. Throws Error.
std::string spec_json(std::string_view text);

}  // namespace posenc::web
