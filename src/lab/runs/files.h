// Files of a run: replaced at once or not at all, and what killed writers leave is known by name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"
#include "weights/file.h"
#include "weights/temporaries.h"

namespace posenc::runs {

// Writes beside `path`, syncs, renames, syncs the folder: `path` has the old text or the new one. An
// Error of kind kIo names the path, the system's reason and what to do.
void atomic_write(const std::filesystem::path& path, std::string_view text);

// Appends to an open file all of the text or, with an Error, none of it: a disk that fills up tears
// no line.
void append_whole(const weights::Descriptor& file, std::string_view text,
                  const std::filesystem::path& path);

// `value` as one line of JSON, through atomic_write. Numbers that are not finite: numbers.h.
void write_json(const std::filesystem::path& path, const Value& value);
Value read_json(const std::filesystem::path& path);

// Makes a folder and those above it that are missing; unless kept, removes those it made again (they
// must be empty then).
class NewFolders {
 public:
  explicit NewFolders(const std::filesystem::path& path);
  ~NewFolders();
  NewFolders(NewFolders&&) = delete;
  NewFolders& operator=(NewFolders&&) = delete;
  // And makes them last through a crash.
  void keep();

 private:
  void remove_made();

  std::vector<std::filesystem::path> made_;  // innermost first
};

// Opens a folder; an Error where it is a link, so that what is written into it stays where its name says.
weights::Descriptor open_own_folder(const std::filesystem::path& folder);
// A path to what is in an open folder, wherever its name leads by now.
std::filesystem::path inside(const weights::Descriptor& folder, std::string_view name);

// Removes a file, or a folder and all in it, as far as that can be done; 0, or the errno of what was left.
// Not std::filesystem::remove_all: programs beside PyTorch 2.11's libraries were seen to crash in it.
int remove_tree(const std::filesystem::path& path) noexcept;

// Names in a folder, sorted; none where it does not exist.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Temporaries are of atomic_write or of a checkpoint that is being written.
using weights::is_temporary;
using weights::temporary_beside;
// Removes temporaries in a folder. Only for whoever holds the lock of the run.
void remove_temporaries(const std::filesystem::path& folder);

}  // namespace posenc::runs
