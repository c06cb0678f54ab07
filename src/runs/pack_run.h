// One run as it goes into a pack.
#pragma once

#include <filesystem>

#include "runs/pack.h"

namespace posenc::runs {

// Writes what a pack keeps of `run` to the new folder `target`.
void copy_for_pack(const std::filesystem::path& run, const std::filesystem::path& target,
                   const PackOptions& options);

}  // namespace posenc::runs
