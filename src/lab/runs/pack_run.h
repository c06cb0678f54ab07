// Prepares one run for a pack.
#pragma once

#include <filesystem>

#include "runs/pack.h"

namespace posenc::runs {

// Writes what a pack keeps of the run at `path` to the new folder `target`.
void copy_for_pack(const std::filesystem::path& path, const std::filesystem::path& target,
                   const PackOptions& options);

}  // namespace posenc::runs
