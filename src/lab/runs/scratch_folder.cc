#include "runs/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "runs/files.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

// Not weights::remove_stale_temporaries, which removes flat folders only.
void remove_stale(const fs::path& path) {
  const std::string prefix = path.filename().string() + ".tmp-";
  for (const std::string& name : names_in(weights::folder_of(path.string()))) {
    if (!name.starts_with(prefix) || !is_temporary(name)) continue;
    const fs::path found = fs::path(weights::folder_of(path.string())) / name;
    const weights::Descriptor folder(
        ::open(found.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const bool stale = folder.number() >= 0 && ::flock(folder.number(), LOCK_EX | LOCK_NB) == 0;
    if (stale) (void)remove_tree(found);
  }
}

}  // namespace

ScratchFolder::ScratchFolder(const fs::path& path) {
  remove_stale(path);
  weights::Temporary made = weights::create_temporary_folder(path.string());
  path_ = made.path;
  lock_ = std::move(made.lock);
  if (::fchmod(lock_.number(), S_IRWXU) == 0) return;
  const int why = errno;
  (void)remove_tree(path_);
  throw weights::write_error(path.string(), why);
}

ScratchFolder::~ScratchFolder() { (void)remove_tree(path_); }

}  // namespace posenc::runs
