// Files of a run: atomic replacement of JSON, and removal of temporary files of killed writers.
#pragma once

#include <filesystem>

#include "core/value.h"
#include "system/files.h"
#include "system/folders.h"
#include "system/temporaries.h"

namespace posenc::runs {

// `value` as one line of JSON, through atomic_write. Numbers that are not finite: numbers.h.
void write_json(const std::filesystem::path& path, const Value& value);
Value read_json(const std::filesystem::path& path);

// Removes temporary files in a folder. The caller must hold the lock of the run.
void remove_temporaries(const std::filesystem::path& folder);

}  // namespace posenc::runs
