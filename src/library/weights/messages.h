// How this layer's errors are worded.
#pragma once

#include <string>
#include <string_view>

#include "posenc/core/error.h"

namespace posenc::weights {

inline constexpr const char* kDamaged = "the file is damaged or not of this format";

// A name for a message: quoted, shortened, and on one line whatever it holds.
std::string in_quotes(std::string_view name);

// "[path] subject rule but got value; hint"
Error file_error(ErrorKind kind, const std::string& path, const std::string& subject,
                 const std::string& rule, const std::string& value, const std::string& hint);

// The system's word for what went wrong with a file: "[path] cannot be written: No space left".
Error system_error(const std::string& path, const std::string& what, int error_number,
                   const std::string& hint);

}  // namespace posenc::weights
