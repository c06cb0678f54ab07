// Removes absolute paths from texts, because they contain names of users and folders.
#pragma once

#include <string>
#include <string_view>

#include "core/value.h"

namespace posenc::runs {

// Every absolute path replaced by its last component: "--out=/home/ann/runs/a" becomes "--out=a".
std::string without_absolute_paths(std::string_view text);
// The same for each word of the member command_line; the other members stay.
Value without_absolute_paths(const Value& environment);

}  // namespace posenc::runs
