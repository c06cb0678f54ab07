// Files of a run: replaced at once or not at all, and what killed writers leave is known by name.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"

namespace posenc::runs {

// Writes beside `path`, syncs, renames, syncs the folder: `path` has the old text or the new one. An
// Error of kind kIo names the path, the system's reason and what to do.
void atomic_write(const std::filesystem::path& path, std::string_view text);

// `value` as one line of JSON, through atomic_write. Numbers that are not finite: numbers.h.
void write_json(const std::filesystem::path& path, const Value& value);
Value read_json(const std::filesystem::path& path);

// Makes a folder and those above it; returns what was made, outermost first.
std::vector<std::filesystem::path> make_folders(const std::filesystem::path& path);

// Is this the name of a temporary, of atomic_write or of a checkpoint that is being written?
bool is_temporary(std::string_view name);
// Removes temporaries in a folder. Only for whoever holds the lock of the run.
void remove_temporaries(const std::filesystem::path& folder);

}  // namespace posenc::runs
