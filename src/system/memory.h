// The memory available to this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace posenc {

// The least of what the machine has free (MemAvailable and swap), what the control groups of this process
// (v1 and v2) have left, and its limit on address space. Nothing where the system says none of them.
// `root` stands before /proc and /sys, for tests.
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "");

// Keeps what is freed, up to 2 GiB, for the next allocation. By default each large tensor's pages go back to
// the system and are cleared again at the next step: an eighth of the processor time of a small training.
void keep_freed_memory();

}  // namespace posenc
