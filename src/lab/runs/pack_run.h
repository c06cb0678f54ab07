// Prepares one run for a pack.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runs/pack.h"

namespace posenc::runs {

// Writes what a pack keeps of the run at `path` to the new folder `target`. `messages` gets a line for each damaged
// checkpoint that was skipped.
void copy_for_pack(const std::filesystem::path& path, const std::filesystem::path& target,
                   const PackOptions& options, std::vector<std::string>& messages);

}  // namespace posenc::runs
