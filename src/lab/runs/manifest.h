// manifest.json: sizes and checksums of a checkpoint's files, so that damage is detected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runs/signed_files.h"

namespace posenc::runs {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kTensorSuffix = ".safetensors";

struct Manifest {
  std::int64_t step = 0;
  std::optional<double> score;
  std::vector<ManifestFile> files;
};

// The text ends with its own checksum.
std::string manifest_text(const Manifest& manifest);
// Throws where the text is not, byte for byte, what manifest_text wrote.
Manifest parse_manifest(std::string_view text, const std::string& path);

// "step-00001000", and back.
std::string step_name(std::int64_t step);
std::optional<std::int64_t> step_of_name(std::string_view name);

// The manifest of a checkpoint whose files are there and as long as it says.
Manifest check_sizes(const std::filesystem::path& checkpoint);
// And with the content that it says.
Manifest check_content(const std::filesystem::path& checkpoint);

}  // namespace posenc::runs
