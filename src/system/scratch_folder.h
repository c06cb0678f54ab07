// A temporary folder, private to this user, which is removed with its contents.
#pragma once

#include <filesystem>
#include <string>

#include "core/open_file.h"

namespace posenc {

class ScratchFolder {
 public:
  // Next to `path`, on the same file system, under the name of a temporary. Those of the same path that
  // killed processes left are removed first.
  explicit ScratchFolder(const std::filesystem::path& path);
  ~ScratchFolder();
  ScratchFolder(ScratchFolder&&) = delete;
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;  // tells a folder in use from one that was left
};

// In the folder for temporary files.
ScratchFolder temporary_scratch(const std::string& name);

}  // namespace posenc
