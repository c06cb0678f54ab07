// The files of configs/, as tests look at them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/value.h"
#include "support/paths.h"

namespace posenc::testing {

// Of configs/ itself, or of a folder in it.
inline std::vector<std::string> shipped_configs(const std::string& below = "") {
  std::vector<std::string> paths;
  const std::filesystem::path folder = std::filesystem::path(kTestData) / "../configs" / below;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().lexically_normal());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline std::set<std::string> top_level_keys(const std::string& path) {
  std::ifstream stream(path);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::set<std::string> keys;
  const Value tree = parse_yaml(text, path);
  for (const Member& member : *tree.get_if<Value::Map>()) keys.insert(member.key);
  return keys;
}

// The comment lines that a file starts with, without their marks, as one text.
inline std::string header_of(const std::string& path) {
  std::ifstream stream(path);
  std::string header;
  for (std::string line; std::getline(stream, line) && line.starts_with("#");) {
    const std::size_t start = line.find_first_not_of("# ");
    header += start == std::string::npos ? " " : line.substr(start) + " ";
  }
  return header;
}

}  // namespace posenc::testing
