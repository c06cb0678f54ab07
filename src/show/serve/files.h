// Opens files below a folder and never outside of it: names are opened one by one without following links.
//
// Each step is an openat() with O_NOFOLLOW on the open parent folder, so links that are created while a
// request runs are rejected as well.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "system/files.h"

namespace posenc::serve {

// A regular file, open for reading.
struct File {
  Descriptor descriptor;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  // since 1970

  // At most `length` bytes from `offset` on; fewer at the end of the file.
  [[nodiscard]] std::string read(std::uint64_t offset, std::size_t length) const;
  // A path to the file that is open, whatever its name leads to by now.
  [[nodiscard]] std::string handle_path() const;
};

class Folder {
 public:
  // The folder that the server was given: this one may be a link.
  static std::optional<Folder> open(const std::string& path);

  // Below this folder; nothing where it is not there, is a link or is of another kind.
  [[nodiscard]] std::optional<Folder> folder(std::span<const std::string> names) const;
  [[nodiscard]] std::optional<File> file(std::span<const std::string> names) const;
  [[nodiscard]] std::optional<File> file(const std::string& name) const {
    return file(std::span(&name, 1));
  }
  // The whole text of a file; nothing where there is none or it is longer than that.
  [[nodiscard]] std::optional<std::string> text(const std::string& name,
                                                std::size_t longest = 1U << 24U) const;
  // Names without a dot at the front, sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] std::int64_t modified_ns() const;
  // The path of something below this folder that is neither a folder nor a regular file: a link, a pipe.
  // Names with a dot in front count too.
  [[nodiscard]] std::optional<std::string> find_other(int deepest = 16) const;
  // The folder that is open, whatever its path leads to by now. For other programs of this user, as long as
  // this object lives.
  [[nodiscard]] std::string handle_path() const;

 private:
  [[nodiscard]] std::vector<std::string> all_names() const;

  explicit Folder(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

}  // namespace posenc::serve
