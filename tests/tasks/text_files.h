// A folder of files with known bytes, gone with the test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "posenc/core/rng.h"
#include "support/temporary_folder.h"

namespace posenc::tasks {

class TextFiles {
 public:
  [[nodiscard]] std::string path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

 private:
  testing::TemporaryFolder folder_;
};

// Bytes that hold no long stretch twice.
inline std::string noise(std::size_t size, std::uint64_t seed) {
  Rng rng(seed);
  std::string bytes(size, ' ');
  for (char& byte : bytes) byte = static_cast<char>(rng.integer(0, 255));
  return bytes;
}

}  // namespace posenc::tasks
