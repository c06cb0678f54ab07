// Archives with the system's tar, zstd and gzip. The file name determines the compression.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "posenc/core/error.h"
#include "system/process.h"

namespace posenc::runs {

// Has it the name of an archive: .tar.zst, .tar.gz or .tar?
bool is_archive_name(const std::filesystem::path& path);
// Throws where it has not, or where a program that makes or reads such archives is missing.
void require_archive_tools(const std::filesystem::path& path);

// An archive and a folder for what lies between it and its files: logs, and the tar without compression.
// Every Error is about the archive as `shown`.
class Archive {
 public:
  Archive(const std::filesystem::path& path, std::filesystem::path scratch, std::string shown);

  // Writes the files `names` of `folder`, in this order. The same files give the same bytes: times, owners
  // and modes are fixed.
  void write(const std::filesystem::path& folder, const std::vector<std::string>& names) const;

  // Undoes the compression alone, and gives the path of the result. An Error where that would have more than
  // `most_bytes`; no more than that is written to the disk.
  [[nodiscard]] std::filesystem::path decompress(std::int64_t most_bytes) const;
  // Extracts the decompressed archive, whose headers were checked (tar_entries.h), into a folder.
  void extract(const std::filesystem::path& folder) const;

  // The first bytes of the decompressed archive; fewer than `count` where it cannot be read.
  [[nodiscard]] std::string first_bytes(std::size_t count) const;

 private:
  [[nodiscard]] std::filesystem::path tar() const { return scratch_ / "content.tar"; }
  [[nodiscard]] std::filesystem::path log() const { return scratch_ / "log"; }
  // What the program prints goes to log().
  [[nodiscard]] Ending execute(std::vector<std::string> words) const;
  [[nodiscard]] Error failure(const std::string& what, const std::string& program,
                              const Ending& ending) const;
  void run(const std::string& what, std::vector<std::string> words) const;

  std::filesystem::path path_;  // absolute: no program takes it for an option
  std::filesystem::path scratch_;
  std::string shown_;
};

}  // namespace posenc::runs
