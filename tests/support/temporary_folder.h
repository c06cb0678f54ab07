// Folders that vanish, and whole files in them.
#pragma once

#include <ftw.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace posenc::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "posenc_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  // Not std::filesystem::remove_all: programs next to PyTorch 2.11's libraries crash in it.
  ~TemporaryFolder() {
    const auto remove = [](const char* path, const struct stat*, int, struct FTW*) {
      return std::remove(path);
    };
    ::nftw(path_.c_str(), remove, 16, FTW_DEPTH | FTW_PHYS);
  }
  TemporaryFolder(TemporaryFolder&&) = delete;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  [[nodiscard]] std::string operator/(const std::string& file) const { return path_ + "/" + file; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Everything in it: a temporary left behind would show.
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string file_content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_content(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace posenc::testing
