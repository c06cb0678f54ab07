// The headers of a tar archive, read before anything of it is extracted.
//
// Only the plain form is accepted, POSIX ustar with regular files and folders: no links, devices, sparse files
// or extended headers, so that what the headers say is what tar extracts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace posenc::runs {

struct TarEntry {
  std::string name;
  std::int64_t size = 0;
  std::int64_t offset = 0;  // of its content
  bool folder = false;
  bool operator==(const TarEntry&) const = default;
};

inline constexpr std::size_t kTarBlock = 512;

// One header block. Throws an Error about `path`.
TarEntry parse_tar_header(std::string_view block, const std::string& path);
// Every entry up to the end mark, and nothing after that.
std::vector<TarEntry> list_tar(const std::filesystem::path& archive, const std::string& path);

// Has a name a place in such a header: 100 bytes, or 155 more before a slash?
bool fits_tar(std::string_view name);

}  // namespace posenc::runs
