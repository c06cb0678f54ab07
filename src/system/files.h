// Files: whole reads and writes, and atomic replacement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/open_file.h"

namespace posenc {

// A regular file to read from, at any place.
class InputFile {
 public:
  explicit InputFile(std::string path);
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Fills `into`, or throws: a file that has become shorter is an error.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  [[nodiscard]] std::string read_text(std::uint64_t offset, std::size_t length) const;

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

// Writes a temporary file next to `path`, on the same file system, and renames it. A symbolic link at `path` is
// replaced, not followed: output_target() resolves links. A device, FIFO or socket is an error, and so is a file
// that is there already unless `replaces` is true.
class AtomicFile {
 public:
  AtomicFile(std::string path, bool replaces);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = delete;
  AtomicFile& operator=(AtomicFile&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void write(std::span<const std::byte> data);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // The content is on the disk; nothing more is written. An error here or in write() is final.
  void sync();
  // Syncs if need be, renames, and makes the rename last.
  void commit();

 private:
  void rename_into_place();
  // Removes the temporary and throws: a file with a piece missing must not be finished later.
  [[noreturn]] void give_up(int error_number);
  [[nodiscard]] Error failure(int error_number) const;

  std::string path_;
  std::string temporary_;  // empty once there is none to remove
  bool replaces_;
  Descriptor file_;  // open, and with that locked, until it is in place
  bool synced_ = false;
};

// Writes a temporary file, syncs, renames, syncs the folder: `path` has the old text or the new one. An
// Error of kind kIo names the path, the system's reason and what to do.
void atomic_write(const std::filesystem::path& path, std::string_view text);

// The file that an output option names: `path`, or the final target of a symbolic link, which need not exist. Throws
// for a device, FIFO or socket, so call it before long work. Files inside runs do not use it: their links may be hostile.
std::string output_target(const std::string& path);
// atomic_write() to output_target().
void write_output(const std::filesystem::path& path, std::string_view text);

// Appends to an open file all of the text or, with an Error, none of it: a disk that fills up tears
// no line.
void append_whole(const Descriptor& file, std::string_view text, const std::filesystem::path& path);

// Makes new names and renames in a folder last through a crash.
void sync_folder(const std::string& folder);
std::string folder_of(const std::string& path);

}  // namespace posenc
