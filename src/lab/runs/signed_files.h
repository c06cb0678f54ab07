// A list of files with sizes and checksums, in a JSON text that ends with its own checksum: manifest.json of a
// checkpoint and pack.json of a pack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"

namespace posenc::runs {

struct ManifestFile {
  std::string name;
  std::int64_t size = 0;
  std::string sha256;
  bool operator==(const ManifestFile&) const = default;
};

// One line of JSON whose last member is the SHA-256 of the line without it.
std::string signed_json(Value::Map members);
// Throws where the text is not, byte for byte, what signed_json wrote.
Value parse_signed_json(std::string_view text, const std::string& path);

Value files_value(const std::vector<ManifestFile>& files);
// The member `files` of a map. Names and sizes are as written: the caller checks them.
std::vector<ManifestFile> read_files(const Value& map, const std::string& path);

// An integer member of a map; throws where it is missing or of another type.
std::int64_t read_whole(const Value& map, std::string_view key, const std::string& path);

}  // namespace posenc::runs
