#include "runs/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/bind.h"
#include "runs/attention_record.h"
#include "runs/files.h"
#include "weights/messages.h"

namespace posenc::runs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = ".lock";
constexpr const char* kStatusFile = "status.json";

Error run_error(const fs::path& path, const std::string& rule, const std::string& hint) {
  return file_error(ErrorKind::kConflict, path.string(), "", rule, "", hint);
}

// An empty folder, or what a process left that was killed while it made a run here.
void check_free(const fs::path& path) {
  if (RunDirectory::exists(path)) {
    throw run_error(path, "holds a run already", "resume it, or choose another folder");
  }
  constexpr std::array<std::string_view, 3> kOwn = {"config.yaml", "environment.json", kLockFile};
  for (const std::string& name : names_in(path)) {
    const bool own = std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end() || is_temporary(name);
    if (!own) {
      throw run_error(path, fmt::format("has other files, such as {}", weights::in_quotes(name)),
                      "choose a new or empty folder");
    }
  }
}

bool try_lock(int file, int kind) {
  int result = 0;
  do {
    result = ::flock(file, kind | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

// A reader that asks whether the run is in use holds the lock for an instant.
bool lock_with_patience(int file) {
  constexpr int kAttempts = 10;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (try_lock(file, LOCK_EX)) return true;
    if (errno != EWOULDBLOCK) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  errno = EWOULDBLOCK;
  return false;
}

// "process 4242 writes to this run"
std::string who_holds(const fs::path& lock) {
  const std::string pid = read_file(lock.string());
  const bool number = !pid.empty() && pid.find_first_not_of("0123456789\n") == std::string::npos;
  return number ? fmt::format("process {} writes to this run", pid.substr(0, pid.find('\n')))
                : "another process writes to this run";
}

bool same_file(int file, const fs::path& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(file, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

// Takes the files of a run that could not be made away again.
class Undo {
 public:
  explicit Undo(fs::path path) : path_(std::move(path)) {}
  ~Undo() {
    if (kept_) return;
    std::error_code ignored;
    for (const char* name : {kStatusFile, "environment.json", "config.yaml", kLockFile}) {
      fs::remove(path_ / name, ignored);
    }
  }
  Undo(Undo&&) = delete;
  Undo& operator=(Undo&&) = delete;
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  bool kept_ = false;
};

}  // namespace

void require_no_run_file(const fs::path& output) {
  constexpr std::array<std::string_view, 6> kFiles = {"config.yaml",  "environment.json",
                                                      kStatusFile,    "metrics.jsonl",
                                                      "results.json", "scores.bin"};
  const std::string name = output.filename().string();
  const fs::path folder = output.parent_path().empty() ? "." : output.parent_path();
  if (std::find(kFiles.begin(), kFiles.end(), name) == kFiles.end()) return;
  if (!RunDirectory::exists(folder)) return;
  throw run_error(output, "is a file of a run, which must not be replaced", "choose another name");
}

bool is_locked(const Descriptor& lock_file) {
  const int file = lock_file.number();
  return file >= 0 && !try_lock(file, LOCK_SH) && errno == EWOULDBLOCK;
}

RunDirectory RunDirectory::create(const fs::path& path, const NewRun& run) {
  check_free(path);
  NewFolders folders(path);
  RunDirectory directory(path);
  directory.lock();
  check_free(path);  // another process may have been quicker
  Undo undo(path);
  remove_temporaries(path);
  directory.write_config(run.config);
  directory.write_environment(run.environment);
  // Last: with its status the folder becomes a run.
  directory.set_status({RunState::kRunning, 0, "", run.config_hash});
  folders.keep();
  undo.keep();
  return directory;
}

RunDirectory RunDirectory::open(const fs::path& path, Access access) {
  if (!exists(path)) {
    throw file_error(ErrorKind::kIo, path.string(), "", "is not a run: it has no status.json", "",
                     "check the path");
  }
  RunDirectory directory(path);
  if (access == Access::kWrite) {
    directory.lock();
    remove_temporaries(path);
    // A linked folder is not the run's own: nothing is removed through it.
    if (!fs::is_symlink(attention_folder(path))) remove_temporaries(attention_folder(path));
  }
  return directory;
}

bool RunDirectory::exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path / kStatusFile, ignored);
}

void RunDirectory::lock() {
  const fs::path path = path_ / kLockFile;
  lock_ = open_regular(path.string(), O_RDWR | O_CREAT);
  if (lock_.number() < 0) throw write_error(path.string(), errno);
  if (!lock_with_patience(lock_.number())) {
    const int why = errno;
    lock_.close();
    if (why != EWOULDBLOCK) throw write_error(path.string(), why);
    throw run_error(path_, who_holds(path), "wait for it, stop it, or choose another folder");
  }
  if (!same_file(lock_.number(), path)) {
    throw run_error(path_, "was just removed by another process", "try again");
  }
  // For the message above only; the lock itself goes with the process.
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock_.number(), 0) != 0 ||
      ::pwrite(lock_.number(), pid.data(), pid.size(), 0) < 0) {
    throw write_error(path.string(), errno);
  }
}

void RunDirectory::require_lock() const {
  if (lock_.number() >= 0) return;
  throw run_error(path_, "was opened to read", "open it to write");
}

bool RunDirectory::in_use() const {
  if (lock_.number() >= 0) return true;
  return is_locked(open_regular((path_ / kLockFile).string(), O_RDONLY));
}

void RunDirectory::write_config(std::string_view text) const {
  require_lock();
  atomic_write(config_path(), text);
}

void RunDirectory::write_environment(const Value& environment) const {
  require_lock();
  write_json(environment_path(), environment);
}

void RunDirectory::set_status(const RunStatus& status) const {
  require_lock();
  write_json(status_path(), {Value::Data(all_fields(status))});
}

void RunDirectory::write_results(const Value& results) const {
  require_lock();
  write_json(results_path(), results);
}

std::string RunDirectory::config() const { return read_file(config_path().string()); }

Value RunDirectory::environment() const { return read_json(environment_path()); }

RunStatus RunDirectory::status() const {
  return bind_config<RunStatus>(read_json(status_path()), status_path().string());
}

std::optional<Value> RunDirectory::results() const {
  std::error_code error;
  if (!fs::exists(results_path(), error) && !error) return std::nullopt;
  return read_json(results_path());
}

}  // namespace posenc::runs
