// Runs posenc-lab as a user does, in a directory of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "runs/files.h"
#include "support/paths.h"
#include "system/restart.h"

namespace posenc::testing {

// What posenc-lab sets for itself by starting itself again, which loads libtorch twice: given before, it starts in half of
// the time. kBare takes it away again.
inline constexpr const char* kBare =
    "unset OMP_WAIT_POLICY OPENBLAS_THREAD_TIMEOUT OPENBLAS_CORETYPE GLOG_minloglevel "
    "TORCH_CPP_LOG_LEVEL; ";
inline const bool kChildrenAreReady = [] {
  EnvironmentSettings settings = patient_threads();
  for (auto& setting : better_openblas()) settings.push_back(std::move(setting));
  settings.insert(settings.end(), {{"GLOG_minloglevel", "3"}, {"TORCH_CPP_LOG_LEVEL", "FATAL"}});
  for (const auto& [name, value] : settings) setenv(name.c_str(), value.c_str(), 0);
  return true;
}();

struct LabResult {
  int code = -1;
  std::string out;  // both streams
};

inline LabResult run_lab(const std::string& arguments, const std::string& before = "") {
  const std::string command = before + kLabPath + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  LabResult result;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

// Starts it and does not wait.
class LabProcess {
 public:
  // What it says goes to a file where one is named.
  explicit LabProcess(std::vector<std::string> words, const std::string& said = "/dev/null",
                      const std::string& program = kLabPath) {
    words.insert(words.begin(), program);
    pid_ = fork();
    if (pid_ != 0) return;
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (freopen(said.c_str(), "w", stdout) == nullptr) _exit(126);
    if (dup2(STDOUT_FILENO, STDERR_FILENO) < 0) _exit(126);
    execvp(program.c_str(), arguments.data());
    _exit(127);
  }
  ~LabProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
  }
  LabProcess(const LabProcess&) = delete;
  LabProcess& operator=(const LabProcess&) = delete;

  // Nothing where it has ended: kill(-1, ...) would reach every process there is.
  void send(int signal) const {
    if (pid_ > 0) kill(pid_, signal);
  }
  [[nodiscard]] pid_t id() const { return pid_; }
  [[nodiscard]] bool running() {
    if (pid_ <= 0) return false;
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == 0) return true;
    note(status);
    return false;
  }
  // Exit code, or minus the signal that ended it.
  int wait() {
    int status = 0;
    if (pid_ > 0 && waitpid(pid_, &status, 0) == pid_) note(status);
    return code_;
  }

 private:
  void note(int status) {
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    pid_ = -1;
  }
  pid_t pid_ = -1;
  int code_ = 0;
};

// A folder that goes when the test does.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "posenc_lab_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { remove_tree(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace posenc::testing
