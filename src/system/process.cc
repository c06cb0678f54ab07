#include "system/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sstream>

#include "core/plain_text.h"
#include "core/value.h"
#include "posenc/core/error.h"

namespace posenc {
namespace {

Error start_error(const Command& command, int error_number) {
  return {ErrorKind::kIo,
          {.scope = "process",
           .key = command.words.empty() ? "" : command.words.front(),
           .rule = fmt::format("could not be started: {}", std::strerror(error_number)),
           .value = "",
           .hint = "check that it is installed and may be run"}};
}

// The parts of posix_spawn that need to be freed.
struct Actions {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  Actions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Actions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Actions(Actions&&) = delete;
  Actions& operator=(Actions&&) = delete;
};

void set_streams(Actions& actions, const Command& command) {
  posix_spawn_file_actions_addopen(&actions.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (!command.output.empty()) {  // before the folder changes: the path is relative to ours
    posix_spawn_file_actions_addopen(&actions.files, STDOUT_FILENO, command.output.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&actions.files, STDOUT_FILENO, STDERR_FILENO);
  }
  if (!command.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions.files, command.folder.c_str());
  }
}

void set_signals(Actions& actions, const Command& command) {
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&actions.attributes, &none);
  int flags = POSIX_SPAWN_SETSIGMASK;
  if (command.own_group) {
    posix_spawnattr_setpgroup(&actions.attributes, 0);
    flags |= POSIX_SPAWN_SETPGROUP;
  }
  posix_spawnattr_setflags(&actions.attributes, static_cast<short>(flags));
}

std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool replaced =
        std::any_of(command.environment.begin(), command.environment.end(), [&](const auto& pair) {
          return text.compare(0, pair.first.size() + 1, pair.first + "=") == 0;
        });
    if (!replaced) all.push_back(text);
  }
  for (const auto& [name, value] : command.environment) {
    all.push_back(fmt::format("{}={}", name, value));
  }
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_text(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

std::string ending_text(const Ending& ending) {
  return ending.signal == 0
             ? fmt::format("exit code {}", ending.code)
             : fmt::format("signal {} ({})", ending.signal, strsignal(ending.signal));
}

Process::Process(const Command& command) : own_group_(command.own_group) {
  if (command.words.empty()) throw start_error(command, EINVAL);
  Actions actions;
  set_streams(actions, command);
  set_signals(actions, command);
  std::vector<std::string> words = command.words;
  std::vector<std::string> environment = environment_of(command);
  const int problem = posix_spawnp(&id_, words.front().c_str(), &actions.files, &actions.attributes,
                                   pointers(words).data(), pointers(environment).data());
  if (problem != 0) {
    id_ = -1;
    throw start_error(command, problem);
  }
}

std::optional<Ending> Process::ending(bool block) {
  int status = 0;
  pid_t changed = 0;
  do {
    changed = id_ < 0 ? -1 : waitpid(id_, &status, block ? 0 : WNOHANG);
  } while (changed < 0 && id_ >= 0 && errno == EINTR);
  if (changed == 0) return std::nullopt;
  if (changed < 0) {
    throw Error(ErrorKind::kIo, {.scope = "process", .rule = "is not there to wait for"});
  }
  id_ = -1;
  return WIFSIGNALED(status) ? Ending{.code = 0, .signal = WTERMSIG(status)}
                             : Ending{.code = WEXITSTATUS(status), .signal = 0};
}

void Process::signal(int number) const {
  if (id_ > 0) kill(own_group_ ? -id_ : id_, number);
}

Ending run_command(const Command& command) { return Process(command).wait(); }

std::string last_line(const std::string& path) {
  try {
    std::istringstream text(read_file(path));
    return last_line(text);
  } catch (const Error&) {
    return "";
  }
}

std::string last_line(std::istream& text) {
  constexpr std::size_t kLongest = 300;
  std::string last;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (const auto shown = line.find_last_of('\r'); shown != std::string::npos) {
      line.erase(0, shown + 1);  // what a progress bar has drawn over
    }
    if (line.find_first_not_of(" \t") != std::string::npos) last = line;
  }
  return shortened(last, kLongest);
}

}  // namespace posenc
