// Child processes: the command, the destination of its output, and the exit status.
#pragma once

#include <sys/types.h>

#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace posenc {

struct Command {
  std::vector<std::string> words;  // program (a path, or a name to look up in PATH) and arguments
  std::string folder;              // where it runs; empty: here
  std::string output;              // file that both its streams are appended to; empty: as ours
  // Environment variables to set in addition to the inherited ones.
  std::vector<std::pair<std::string, std::string>> environment;
  // A separate process group gets no signals from the terminal: the parent forwards them.
  bool own_group = false;
};

// As a shell would show it, with quotes where they are needed.
std::string command_text(const std::vector<std::string>& words);

struct Ending {
  int code = 0;    // exit code, where no signal ended it
  int signal = 0;  // the signal that ended it, or 0
  [[nodiscard]] bool fine() const { return code == 0 && signal == 0; }
};
// "exit code 3" or "signal 9 (Killed)".
std::string ending_text(const Ending& ending);

class Process {
 public:
  // Throws an Error of kind kIo that names the program and the system's reason.
  explicit Process(const Command& command);
  ~Process() = default;  // the process keeps running: call wait() first if it must not
  Process(Process&& other) noexcept
      : id_(std::exchange(other.id_, -1)), own_group_(other.own_group_) {}
  Process& operator=(Process&& other) noexcept {
    id_ = std::exchange(other.id_, -1);
    own_group_ = other.own_group_;
    return *this;
  }

  [[nodiscard]] pid_t id() const { return id_; }
  // How it ended, once it has. Asked again after that it throws.
  std::optional<Ending> poll() { return ending(false); }
  Ending wait() { return *ending(true); }
  // To it, or to its group where it has one. Nothing happens once it has ended.
  void signal(int number) const;

 private:
  std::optional<Ending> ending(bool block);

  pid_t id_ = -1;
  bool own_group_ = false;
};

// Runs to the end.
Ending run_command(const Command& command);

// The last line of a file that is not blank, cut to a readable length: what a program said before it
// failed. Empty where there is none or the file cannot be read.
std::string last_line(const std::string& path);
std::string last_line(std::istream& text);

}  // namespace posenc
