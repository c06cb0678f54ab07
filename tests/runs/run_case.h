// Helpers for tests of runs: values, children that may be killed, disks that are full or read-only.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "core/value.h"
#include "posenc/core/error.h"
#include "support/checkpoint_case.h"

namespace posenc::testing {

inline Value number(double value) { return {Value::Data(value)}; }
inline Value whole(std::int64_t value) { return {Value::Data(value)}; }
inline Value text(std::string value) { return Value::of_string(std::move(value)); }
inline Value map_of(Value::Map members) { return {Value::Data(std::move(members))}; }

// The text of the Error that `body` throws; "" where it throws none.
template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A process of its own: what it says arrives here, and it ends when `body` returns or is killed.
class Child {
 public:
  using Say = std::function<void(const std::string&)>;

  explicit Child(const std::function<void(const Say&)>& body) {
    int ends[2] = {};
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    id_ = ::fork();
    if (id_ < 0) throw std::runtime_error("no process");  // kill(-1, ...) would reach every one
    if (id_ == 0) {
      ::close(ends[0]);
      run(body, ends[1]);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    if (id_ > 0) kill();
    ::close(from_);
  }
  Child(Child&&) = delete;
  Child& operator=(Child&&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  // The next line; "" when there will be none.
  std::string line() {
    std::string text;
    for (char c = 0; ::read(from_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  // All that is left, once it has ended.
  std::string rest() {
    std::string all;
    for (char c = 0; ::read(from_, &c, 1) == 1;) all += c;
    return all;
  }
  // As waitpid tells it.
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return status;
  }
  int kill(int signal = SIGKILL) {
    ::kill(id_, signal);
    return wait();
  }

 private:
  [[noreturn]] static void run(const std::function<void(const Say&)>& body, int to) {
    const Say say = [to](const std::string& text) {
      const std::string line = text + "\n";
      if (::write(to, line.data(), line.size()) < 0) ::_exit(3);
    };
    try {
      body(say);
    } catch (const std::exception& error) {
      say(std::string("unexpected: ") + error.what());
      ::_exit(2);
    }
    ::_exit(0);
  }

  pid_t id_ = -1;
  int from_ = -1;
};

// A disk that fills up in the middle, as write() reports it: the limit on file sizes. Needs no
// rights, so it always runs.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }
  SmallDisk(SmallDisk&&) = delete;
  SmallDisk& operator=(SmallDisk&&) = delete;

 private:
  rlimit old_{};
  void (*handler_)(int) = nullptr;
};

// In a child that is not multi-threaded: a tmpfs that only it sees. False where the system does not
// allow that.
inline bool mount_tmpfs(const std::string& folder, const std::string& options) {
  const auto put = [](const char* file, const std::string& content) {
    std::ofstream(file) << content;
  };
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWNS | (user == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (user != 0) {
    put("/proc/self/setgroups", "deny");
    put("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    put("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
}

inline bool make_read_only(const std::string& folder) {
  return ::mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

// Drops root's privileges in a child process, because root may write everywhere.
inline bool drop_rights() {
  constexpr uid_t kNobody = 65534;
  return ::geteuid() != 0 || (::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
}

}  // namespace posenc::testing
