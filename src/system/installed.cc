#include "system/installed.h"

#include <system_error>

namespace posenc {

namespace fs = std::filesystem;

fs::path program_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

fs::path shared_folder() { return program_folder().parent_path() / "share/posenc"; }

std::string found_config(const std::string& path) {
  std::error_code ignored;
  const fs::path given(path);
  if (given.is_absolute() || fs::exists(given, ignored)) return path;
  if (given.begin() == given.end() || *given.begin() != "configs") return path;
  const fs::path installed = shared_folder() / given;
  return fs::exists(installed, ignored) ? installed.string() : path;
}

}  // namespace posenc
