#include "system/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "system/file_errors.h"
#include "system/temporaries.h"

namespace posenc {
namespace {

// Linux moves at most 2 GiB in one call.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
constexpr int kMostLinks = 40;  // as the system follows

// What is there keeps its permissions when it is replaced.
void keep_permissions(const std::string& path, const Descriptor& file) {
  struct stat old {};
  if (::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode)) {
    (void)::fchmod(file.number(), old.st_mode & 07777);
  }
}

// A rename would replace a device node or a FIFO. Folders and links are left to the caller.
void refuse_special(const std::string& path, const struct stat& facts) {
  if (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode) || S_ISLNK(facts.st_mode)) return;
  throw not_regular_error(path, facts.st_mode);
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)), file_(open_to_read(path_)) {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0) throw read_error(path_, errno);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(file_.number(), into.data(), std::min(into.size(), kMostAtOnce),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw read_error(path_, errno);
    if (got == 0) {
      throw file_error(ErrorKind::kIo, path_, "",
                       fmt::format("ends at byte {} and had {} when it was opened", offset, size_),
                       "", "leave the file alone while it is read");
    }
    offset += static_cast<std::uint64_t>(got);
    into = into.subspan(got);
  }
}

std::string InputFile::read_text(std::uint64_t offset, std::size_t length) const {
  std::string text(length, '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

AtomicFile::AtomicFile(std::string path, bool replaces)
    : path_(std::move(path)), replaces_(replaces) {
  if (!replaces && ::access(path_.c_str(), F_OK) == 0) {
    throw failure(EEXIST);
  }
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0) refuse_special(path_, there);
  Temporary made = create_temporary_file(path_);
  temporary_ = std::move(made.path);
  file_ = std::move(made.lock);
  if (replaces) keep_permissions(path_, file_);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error AtomicFile::failure(int error_number) const {
  if (error_number == EEXIST) {
    return file_error(ErrorKind::kIo, path_, "", "exists already", "",
                      "choose another name, or allow to replace it");
  }
  return write_error(path_, error_number);
}

void AtomicFile::give_up(int error_number) {
  file_.close();
  ::unlink(temporary_.c_str());
  temporary_.clear();
  throw failure(error_number);
}

void AtomicFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t put = ::write(file_.number(), data.data(), std::min(data.size(), kMostAtOnce));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) give_up(errno);
    data = data.subspan(put);
  }
}

void AtomicFile::sync() {
  if (temporary_.empty()) throw failure(EBADF);
  if (synced_) return;
  if (::fsync(file_.number()) != 0) give_up(errno);
  synced_ = true;
}

void AtomicFile::rename_into_place() {
#ifdef RENAME_NOREPLACE
  if (!replaces_) {
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) {
      return;
    }
    // Some file systems do not know the flag; the check below is the next best.
    if (errno != EINVAL && errno != ENOSYS) throw failure(errno);
  }
#endif
  if (!replaces_ && ::access(path_.c_str(), F_OK) == 0) {
    throw failure(EEXIST);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw failure(errno);
}

void AtomicFile::commit() {
  sync();
  rename_into_place();
  temporary_.clear();
  file_.close();
  sync_folder(folder_of(path_));
}

void atomic_write(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path.string(), true);
  file.write(text);
  file.commit();
}

std::string output_target(const std::string& path) {
  namespace fs = std::filesystem;
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0) refuse_special(path, there);
  fs::path target = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code why;
    if (!fs::is_symlink(fs::symlink_status(target, why))) return target.string();
    const fs::path next = fs::read_symlink(target, why);
    if (why) throw write_error(path, why.value());
    target = target.parent_path() / next;
  }
  throw write_error(path, ELOOP);
}

void write_output(const std::filesystem::path& path, std::string_view text) {
  atomic_write(output_target(path.string()), text);
}

void append_whole(const Descriptor& file, std::string_view text,
                  const std::filesystem::path& path) {
  const off_t before = ::lseek(file.number(), 0, SEEK_END);
  while (!text.empty()) {
    const ssize_t put = ::write(file.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int why = errno;
      if (before >= 0 && ::ftruncate(file.number(), before) != 0) errno = why;
      throw write_error(path.string(), why);
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void sync_folder(const std::string& folder) {
  const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: a file system that cannot sync folders.
  if (open.number() < 0 || (::fsync(open.number()) != 0 && errno != EINVAL)) {
    throw system_error(folder, "cannot be synced", errno, "the files in it are in place");
  }
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace posenc
