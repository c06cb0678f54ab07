// pack.json: sizes and checksums of the files in a pack, so that damage is detected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runs/signed_files.h"

namespace posenc::runs {

inline constexpr const char* kPackIndexFile = "pack.json";
inline constexpr std::int64_t kPackFormat = 1;
// More than this is not unpacked: a small archive can hold enough zeros to fill a disk.
inline constexpr std::int64_t kLargestPack = std::int64_t{4} << 30;

struct PackIndex {
  std::vector<ManifestFile> files;  // by name, pack.json not among them
};

// Is this a relative path of plain names: no "..", no ".", no empty part, no backslash or control character?
bool is_plain_path(std::string_view name);

std::string pack_index_text(const PackIndex& index);
// Throws where the text is altered, of a newer format, or lists what no pack has: files out of order, outside
// a run, or of more than `most_bytes` together.
PackIndex parse_pack_index(std::string_view text, const std::string& path,
                           std::int64_t most_bytes = kLargestPack);

// The folders that have a status.json, by name.
std::vector<std::string> run_names(const PackIndex& index);

}  // namespace posenc::runs
