// The last Error made in this thread: for bindings whose callers see no more of one than its text.
#pragma once

#include <optional>

#include "posenc/core/error.h"

namespace posenc {

const std::optional<Error>& last_error();

}  // namespace posenc
