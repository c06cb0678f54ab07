// Messages of file errors.
#pragma once

#include <string>

#include "posenc/core/error.h"

namespace posenc {

// "[path] subject rule but got value; hint"
Error file_error(ErrorKind kind, const std::string& path, const std::string& subject,
                 const std::string& rule, const std::string& value, const std::string& hint);

// The system's word for what went wrong with a file: "[path] cannot be synced: Input/output error; hint".
Error system_error(const std::string& path, const std::string& what, int error_number,
                   const std::string& hint);

// "[path] cannot be written: No space left on device; make room; ..."
Error write_error(const std::string& path, int error_number);

}  // namespace posenc
