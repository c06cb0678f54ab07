// Ends this process when its parent ends.
#pragma once

#include <string>

namespace posenc {

// The environment variable in which a worker of a sweep tells its jobs its number.
inline constexpr const char* kWorkerVariable = "POSENC_WORKER";

// If this process was started by the process that the variable names: SIGTERM when that one ends, however it ends. Holds
// through exec. Otherwise nothing changes.
void end_with_parent(const char* variable = kWorkerVariable);

}  // namespace posenc
