// The files of configs/evidence, as tests look at them: each part as the sweep that it stands for.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/value.h"
#include "sweep/plan.h"

namespace posenc::testing {

struct ProtocolPart {
  std::string page;  // "counting"
  std::string name;  // "main"
  std::string path;  // of the evidence file
  std::string base;  // the part's, or that of the file
  sweep::SweepFile sweep;
};

inline std::filesystem::path repository_root() {
  return (std::filesystem::path(POSENC_TEST_DATA_DIR) / "..").lexically_normal();
}

inline std::vector<std::string> files_with(const std::filesystem::path& folder,
                                           const std::string& extension) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == extension) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline std::vector<std::string> protocols() {
  return files_with(repository_root() / "configs/evidence", ".yaml");
}

inline ProtocolPart part_of(const std::string& path, const Value& tree, const Member& member) {
  Value::Map map = {{"out", Value::of_string("runs/evidence")}};
  if (member.value.find("base") == nullptr) map.push_back({"base", *tree.find("base")});
  for (const Member& field : *member.value.get_if<Value::Map>()) {
    if (field.key != "about") map.push_back(field);
  }
  const Value part{Value::Data(std::move(map))};
  return {.page = std::filesystem::path(path).stem(),
          .name = member.key,
          .path = path,
          .base = *part.find("base")->get_if<std::string>(),
          .sweep = sweep::parse_sweep(to_yaml(part), path)};
}

inline std::vector<ProtocolPart> protocol_parts(const std::string& path) {
  const Value tree = parse_yaml(read_file(path), path);
  std::vector<ProtocolPart> parts;
  for (const Member& member : *tree.find("parts")->get_if<Value::Map>()) {
    parts.push_back(part_of(path, tree, member));
  }
  return parts;
}

}  // namespace posenc::testing
