#include "system/folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ftw.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "system/file_errors.h"
#include "system/files.h"

namespace posenc {
namespace {

namespace fs = std::filesystem;

constexpr int kOpenFolders = 16;

thread_local int first_problem = 0;

int remove_entry(const char* path, const struct stat* /*facts*/, int /*kind*/, FTW* /*place*/) {
  if (::remove(path) != 0 && first_problem == 0) first_problem = errno;
  return 0;
}

}  // namespace

int remove_tree(const fs::path& path) noexcept {
  first_problem = 0;
  errno = 0;
  if (::nftw(path.c_str(), remove_entry, kOpenFolders, FTW_DEPTH | FTW_PHYS) != 0) {
    return errno == ENOENT ? 0 : errno;
  }
  return first_problem;
}

NewFolders::NewFolders(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> missing;
  fs::path folder = fs::absolute(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/one/"
  for (; !fs::exists(folder, error) && !error; folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  for (; !missing.empty() && !error; missing.pop_back()) {
    if (fs::create_directory(missing.back(), error)) made_.insert(made_.begin(), missing.back());
  }
  if (!error && !fs::is_directory(path, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error) return;
  remove_made();
  throw write_error(path.string(), error.value());
}

NewFolders::~NewFolders() { remove_made(); }

void NewFolders::keep() {
  for (const fs::path& folder : made_) sync_folder(folder.parent_path().string());
  made_.clear();
}

void NewFolders::remove_made() {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
  made_.clear();
}

Descriptor open_own_folder(const fs::path& folder) {
  Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (open.number() >= 0) return open;
  if (errno != ELOOP && errno != ENOTDIR) throw write_error(folder.string(), errno);
  throw file_error(ErrorKind::kIo, folder.string(), "", "is a link or a file, not a folder", "",
                   "move it away; posenc writes inside the run only");
}

fs::path inside(const Descriptor& folder, std::string_view name) {
  return fs::path(fmt::format("/proc/self/fd/{}", folder.number())) / name;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw system_error(folder.string(), "cannot be read", error.value(),
                       "check the path and its permissions");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace posenc
