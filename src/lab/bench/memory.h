// Memory that a piece of work adds to the process at its peak.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace posenc::bench {

// Large blocks go back to the system when they are freed; else a second run would seem to need none.
// For the whole process: call it first.
void give_freed_memory_back();

// Growth of the resident set at its peak while `work` runs, in bytes, from the kernel's own counter
// (to a few hundred KiB). Nothing where the system has no such counter.
std::optional<std::int64_t> peak_bytes_of(const std::function<void()>& work);

}  // namespace posenc::bench
