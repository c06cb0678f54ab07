#include "runs/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ftw.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "runs/numbers.h"
#include "weights/messages.h"

namespace posenc::runs {
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

void atomic_write(const fs::path& path, std::string_view text) {
  weights::AtomicFile file(path.string(), weights::Overwrite::kReplace);
  file.write(text);
  file.commit();
}

void append_whole(const weights::Descriptor& file, std::string_view text, const fs::path& path) {
  const off_t before = ::lseek(file.number(), 0, SEEK_END);
  while (!text.empty()) {
    const ssize_t put = ::write(file.number(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int why = errno;
      if (before >= 0 && ::ftruncate(file.number(), before) != 0) errno = why;
      throw weights::write_error(path.string(), why);
    }
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void write_json(const fs::path& path, const Value& value) {
  atomic_write(path, to_json(without_non_finite(value)) + "\n");
}

Value read_json(const fs::path& path) {
  return with_non_finite(parse_json(read_file(path.string()), path.string()));
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
  throw weights::write_error(path.string(), error.value());
}

NewFolders::~NewFolders() { remove_made(); }

void NewFolders::keep() {
  for (const fs::path& folder : made_) weights::sync_folder(folder.parent_path().string());
  made_.clear();
}

void NewFolders::remove_made() {
  std::error_code ignored;
  for (const fs::path& folder : made_) fs::remove(folder, ignored);
  made_.clear();
}

weights::Descriptor open_own_folder(const fs::path& folder) {
  weights::Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (open.number() >= 0) return open;
  if (errno != ELOOP && errno != ENOTDIR) throw weights::write_error(folder.string(), errno);
  throw weights::file_error(ErrorKind::kIo, folder.string(), "",
                            "is a link or a file, not a folder", "",
                            "move it away; posenc writes inside the run only");
}

fs::path inside(const weights::Descriptor& folder, std::string_view name) {
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
    throw weights::system_error(folder.string(), "cannot be read", error.value(),
                                "check the path and its permissions");
  }
  std::sort(names.begin(), names.end());
  return names;
}

void remove_temporaries(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    const int error = is_temporary(name) ? remove_tree(folder / name) : 0;
    if (error != 0) throw weights::write_error((folder / name).string(), error);
  }
}

}  // namespace posenc::runs
