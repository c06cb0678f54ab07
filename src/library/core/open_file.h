// Opens files that other users or programs may control. Only regular files are opened, and opening
// never blocks, as it would for a FIFO without a writer.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <utility>

#include "posenc/core/error.h"

namespace posenc {

// An open file; closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  [[nodiscard]] int number() const { return number_; }
  void close();

 private:
  int number_;
};

// open() with O_CLOEXEC and O_NONBLOCK. Number -1 and errno where the system refuses; an Error of kind kIo
// where the path is no regular file: "[results.json] is a FIFO, not a regular file". Links are followed.
Descriptor open_regular(const std::string& path, int flags, mode_t mode = 0666);

// From here on open_regular() follows no link below this folder, whichever name of a path it stands for. For
// the whole process and one folder; paths are compared as text. The folder itself may be a link.
void refuse_links_below(const std::string& folder);

// The same to read; an Error also where the system refuses.
Descriptor open_to_read(const std::string& path);

// Fills `into` from where the file stands and returns the bytes read; fewer than asked only at the end.
std::size_t read_bytes(const Descriptor& file, std::span<char> into, const std::string& path);

// "[path] cannot be read: No such file or directory; check the path and its permissions"
Error read_error(const std::string& path, int error_number);
// "[path] is a FIFO, not a regular file; give the path of a regular file", by st_mode.
Error not_regular_error(const std::string& path, mode_t mode);

}  // namespace posenc
