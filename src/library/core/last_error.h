// The last Error of this thread, for bindings whose callers only get the message of an exception.
#pragma once

#include <optional>

#include "posenc/core/error.h"

namespace posenc {

const std::optional<Error>& last_error();

}  // namespace posenc
