#include "core/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace posenc {
namespace {

// Linux moves at most 2 GiB in one call.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

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

Descriptor open_regular(const std::string& path, int flags, mode_t mode) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode));
  const int why = errno;
  struct stat facts {};
  // A FIFO without a reader and a directory cannot be opened to write; they are named all the same.
  const bool known =
      file.number() >= 0 ? ::fstat(file.number(), &facts) == 0 : ::stat(path.c_str(), &facts) == 0;
  if (known && !S_ISREG(facts.st_mode)) {
    throw Error(ErrorKind::kIo,
                {.scope = path,
                 .key = "",
                 .rule = std::string("is ") + kind_name(facts.st_mode) + ", not a regular file",
                 .value = "",
                 .hint = "give the path of a regular file"});
  }
  errno = why;
  return file;
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
