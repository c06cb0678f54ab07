// Creates, lists and recursively removes folders.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/open_file.h"

namespace posenc {

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
Descriptor open_own_folder(const std::filesystem::path& folder);
// A path to what is in an open folder, wherever its name leads by now.
std::filesystem::path inside(const Descriptor& folder, std::string_view name);

// Removes a file, or a folder and all in it, as far as that can be done; 0, or the errno of what was left.
// Not std::filesystem::remove_all: it crashed in processes that load PyTorch 2.11.
int remove_tree(const std::filesystem::path& path) noexcept;

// Names in a folder, sorted; none where it does not exist.
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace posenc
