// Error messages of this layer.
#pragma once

#include <string>
#include <string_view>

#include "system/file_errors.h"

namespace posenc::weights {

inline constexpr const char* kDamaged = "the file is damaged or not of this format";

// A name for a message: quoted, shortened, and on one line whatever it holds.
std::string in_quotes(std::string_view name);

}  // namespace posenc::weights
