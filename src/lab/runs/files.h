// The files of a run: JSON that is replaced atomically, and temporaries that killed writers leave.
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
