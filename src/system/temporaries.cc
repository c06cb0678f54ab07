#include "system/temporaries.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>

#include "system/file_errors.h"
#include "system/files.h"
#include "system/folders.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";
constexpr int kAttempts = 100;

bool lock(const Descriptor& open, int how) {
  int result = 0;
  do {
    result = ::flock(open.number(), how);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool still_named(const Descriptor& open, const std::string& path) {
  struct stat mine {};
  struct stat named {};
  return ::fstat(open.number(), &mine) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

// `make` gives an open descriptor, or sets errno. A process that takes a new temporary for a stale one can
// remove it before it is locked: then another is made.
template <class Make>
Temporary create(const std::string& path, const Make& make) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Temporary made{temporary_beside(path), Descriptor()};
    made.lock = make(made.path);
    if (made.lock.number() >= 0) {
      (void)lock(made.lock, LOCK_EX);  // file systems without locks: never taken for stale either
      if (still_named(made.lock, made.path)) return made;
    } else if (errno != EEXIST) {
      break;
    }
  }
  throw write_error(path, errno);
}

void remove_if_stale(const std::string& path) {
  const Descriptor open(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (open.number() < 0 || ::fstat(open.number(), &info) != 0) return;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) return;
  if (!lock(open, LOCK_EX | LOCK_NB) || !still_named(open, path)) return;
  (void)remove_tree(path);
}

}  // namespace

bool is_temporary(std::string_view name) {
  const std::size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return false;
  const std::string_view digits = name.substr(at + kMark.size());
  return digits.size() == 8 &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string temporary_beside(const std::string& path) {
  std::random_device random;
  return fmt::format("{}{}{:08x}", path, kMark, random());
}

// Not mkstemp, which ignores the umask.
Temporary create_temporary_file(const std::string& path) {
  return create(path, [](const std::string& name) {
    return Descriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  });
}

Temporary create_temporary_folder(const std::string& path) {
  return create(path, [](const std::string& name) {
    if (::mkdir(name.c_str(), 0777) != 0) return Descriptor();
    return Descriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  });
}

void remove_stale_temporaries(const std::string& path) {
  const std::string name = fs::path(path).filename().string() + std::string(kMark);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_of(path), ignored)) {
    const std::string found = entry.path().filename().string();
    if (found.starts_with(name) && is_temporary(found) && found.size() == name.size() + 8) {
      remove_if_stale(entry.path().string());
    }
  }
}

}  // namespace posenc
