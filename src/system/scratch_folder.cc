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

}  // namespace posenc
