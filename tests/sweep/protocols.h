// The files of configs/evidence, as tests look at them: each part as the sweep that it stands for.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/paths.h"
#include "sweep/evidence_file.h"

namespace posenc::testing {

struct ProtocolPart {
  std::string page;  // "counting"
  std::string name;  // "main"
  std::string path;  // of the evidence file
  std::string base;  // the part's, or that of the file
  sweep::SweepFile sweep;
};

inline std::filesystem::path repository_root() {
  return (std::filesystem::path(kTestData) / "..").lexically_normal();
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

inline std::vector<ProtocolPart> protocol_parts(const std::string& path) {
  std::vector<ProtocolPart> parts;
  const sweep::EvidenceFile file = sweep::read_evidence(path);
  for (const sweep::EvidencePart& part : file.parts) {
    const auto folder = std::filesystem::path(path).parent_path();
    parts.push_back({.page = file.name,
                     .name = part.name,
                     .path = path,
                     .base = part.sweep.base.lexically_relative(folder),
                     .sweep = part.sweep});
  }
  return parts;
}

}  // namespace posenc::testing
