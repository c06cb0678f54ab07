#include "core/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

namespace posenc {
namespace {

// Linux moves at most 2 GiB in one call.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

struct LinkFree {
  std::string prefix;  // with a slash at the end
  Descriptor folder;
};
// Set once, before threads that open files start.
LinkFree& link_free() {
  static LinkFree rule;
  return rule;
}

// Each name is opened in the folder before it: a link in place of any of them is an error of the system
// (ELOOP or ENOTDIR), also one that is put there in the meantime.
Descriptor open_below(const Descriptor& folder, std::string_view names, int flags, mode_t mode) {
  Descriptor at;
  const Descriptor* parent = &folder;
  for (;;) {
    const std::size_t slash = names.find('/');
    const std::string name(names.substr(0, slash));
    if (slash == std::string_view::npos) {
      return Descriptor(::openat(parent->number(), name.c_str(), flags | O_NOFOLLOW, mode));
    }
    names.remove_prefix(slash + 1);
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      errno = EACCES;
      return Descriptor();
    }
    Descriptor below(
        ::openat(parent->number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (below.number() < 0) return below;
    at = std::move(below);
    parent = &at;
  }
}

Descriptor open_path(const std::string& path, int flags, mode_t mode) {
  const LinkFree& rule = link_free();
  if (rule.prefix.empty() || !path.starts_with(rule.prefix)) {
    return Descriptor(::open(path.c_str(), flags, mode));
  }
  return open_below(rule.folder, std::string_view(path).substr(rule.prefix.size()), flags, mode);
}

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Error read_error(const std::string& path, int error_number) {
  return {ErrorKind::kIo,
          {.scope = path,
           .key = "",
           .rule = "cannot be read: " + std::generic_category().message(error_number),
           .value = "",
           .hint = "check the path and its permissions"}};
}

Error not_regular_error(const std::string& path, mode_t mode) {
  return {ErrorKind::kIo,
          {.scope = path,
           .key = "",
           .rule = std::string("is ") + kind_name(mode) + ", not a regular file",
           .value = "",
           .hint = "give the path of a regular file"}};
}

Descriptor open_regular(const std::string& path, int flags, mode_t mode) {
  Descriptor file = open_path(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  const int why = errno;
  struct stat facts {};
  // A FIFO without a reader and a directory cannot be opened to write; they are named all the same.
  const bool known =
      file.number() >= 0 ? ::fstat(file.number(), &facts) == 0 : ::stat(path.c_str(), &facts) == 0;
  if (known && !S_ISREG(facts.st_mode)) throw not_regular_error(path, facts.st_mode);
  errno = why;
  return file;
}

void refuse_links_below(const std::string& folder) {
  Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (open.number() < 0) throw read_error(folder, errno);
  link_free() = {folder.ends_with('/') ? folder : folder + "/", std::move(open)};
}

Descriptor open_to_read(const std::string& path) {
  Descriptor file = open_regular(path, O_RDONLY);
  if (file.number() < 0) throw read_error(path, errno);
  return file;
}

std::size_t read_bytes(const Descriptor& file, std::span<char> into, const std::string& path) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const ssize_t got =
        ::read(file.number(), into.data() + filled, std::min(into.size() - filled, kMostAtOnce));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw read_error(path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

}  // namespace posenc
