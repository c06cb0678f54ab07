#include "serve/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace posenc::serve {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Descriptor open_at(int folder, const std::string& name, int flags) {
  return Descriptor(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags));
}

}  // namespace

std::string File::read(std::uint64_t offset, std::size_t length) const {
  std::string text(length, '\0');
  std::size_t filled = 0;
  while (filled < length) {
    const ssize_t n = ::pread(descriptor.number(), text.data() + filled, length - filled,
                              static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    filled += static_cast<std::size_t>(n);
  }
  text.resize(filled);
  return text;
}

std::string File::handle_path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor.number());
}

std::optional<Folder> Folder::open(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.number() < 0) return std::nullopt;
  return Folder(std::move(descriptor));
}

std::optional<Folder> Folder::folder(std::span<const std::string> names) const {
  Descriptor at(::fcntl(descriptor_.number(), F_DUPFD_CLOEXEC, 0));
  for (const std::string& name : names) {
    if (at.number() < 0) break;
    at = open_at(at.number(), name, O_DIRECTORY);
  }
  if (at.number() < 0) return std::nullopt;
  return Folder(std::move(at));
}

std::optional<File> Folder::file(std::span<const std::string> names) const {
  if (names.empty()) return std::nullopt;
  const auto parent = folder(names.first(names.size() - 1));
  if (!parent) return std::nullopt;
  // O_NONBLOCK: a pipe in place of a file must not make the server wait for a writer.
  Descriptor descriptor = open_at(parent->descriptor_.number(), names.back(), O_NONBLOCK);
  struct stat info {};
  if (descriptor.number() < 0 || ::fstat(descriptor.number(), &info) != 0 ||
      !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return File{std::move(descriptor), static_cast<std::uint64_t>(info.st_size),
              nanoseconds(info.st_mtim)};
}

std::optional<std::string> Folder::text(const std::string& name, std::size_t longest) const {
  const auto found = file(name);
  if (!found || found->size > longest) return std::nullopt;
  return found->read(0, static_cast<std::size_t>(found->size));
}

std::vector<std::string> Folder::all_names() const {
  std::vector<std::string> found;
  Descriptor again = open_at(descriptor_.number(), ".", O_DIRECTORY);  // a separate read position
  const int number = ::fcntl(again.number(), F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(number < 0 ? nullptr : ::fdopendir(number),
                                                   ::closedir);
  if (!stream) {
    if (number >= 0) ::close(number);
    return found;
  }
  while (const dirent* entry = ::readdir(stream.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> found = all_names();
  std::erase_if(found, [](const std::string& name) { return name.front() == '.'; });
  return found;
}

std::optional<std::string> Folder::find_other(int deepest) const {
  for (const std::string& name : all_names()) {
    struct stat info {};
    // What a training removes in the meantime is no longer there to be wrong.
    if (::fstatat(descriptor_.number(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) continue;
    if (!S_ISDIR(info.st_mode) || deepest == 0) return name;
    const auto below = folder(std::span(&name, 1));
    const auto inner = below ? below->find_other(deepest - 1) : std::nullopt;
    if (inner) return name + "/" + *inner;
  }
  return std::nullopt;
}

std::string Folder::handle_path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor_.number());
}

std::int64_t Folder::modified_ns() const {
  struct stat info {};
  return ::fstat(descriptor_.number(), &info) == 0 ? nanoseconds(info.st_mtim) : 0;
}

}  // namespace posenc::serve
