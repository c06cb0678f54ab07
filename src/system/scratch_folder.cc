#include "system/scratch_folder.h"

#include <sys/stat.h>

#include <cerrno>

#include "system/file_errors.h"
#include "system/folders.h"
#include "system/temporaries.h"

namespace posenc {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(const fs::path& path) {
  remove_stale_temporaries(path.string());
  Temporary made = create_temporary_folder(path.string());
  path_ = made.path;
  lock_ = std::move(made.lock);
  if (::fchmod(lock_.number(), S_IRWXU) == 0) return;
  const int why = errno;
  (void)remove_tree(path_);
  throw write_error(path.string(), why);
}

ScratchFolder::~ScratchFolder() { (void)remove_tree(path_); }

ScratchFolder temporary_scratch(const std::string& name) {
  const std::string hint = "set TMPDIR to a folder that can be written";
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (error) {
    throw system_error("TMPDIR", "is not a folder for temporary files", error.value(), hint);
  }
  try {
    return ScratchFolder(folder / name);
  } catch (const Error& e) {
    throw file_error(ErrorKind::kIo, folder.string(), "", e.rule(), "", hint);
  }
}

}  // namespace posenc
