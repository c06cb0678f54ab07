// A folder of files with known bytes, gone with the test.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "posenc/core/rng.h"

namespace posenc::tasks {

class TextFiles {
 public:
  explicit TextFiles(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("posenc_tasks_" + name + "_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TextFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TextFiles(const TextFiles&) = delete;
  TextFiles& operator=(const TextFiles&) = delete;

  [[nodiscard]] std::string path() const { return folder_.string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path folder_;
};

// Bytes that hold no long stretch twice.
inline std::string noise(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, ' ');
  for (char& byte : bytes) byte = static_cast<char>(rng.integer(0, 255));
  return bytes;
}

}  // namespace posenc::tasks
