#include "sweep/gpu_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "posenc/core/error.h"
#include "runs/files.h"
#include "system/process.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;
using Environment = std::vector<std::pair<std::string, std::string>>;
using Clock = std::chrono::steady_clock;

constexpr const char* kControl = "nvidia-cuda-mps-control";
constexpr auto kPause = std::chrono::milliseconds(20);
// A socket's path has 107 characters at most, and the service appends names.
constexpr std::size_t kLongestFolder = 60;

bool in_path(const std::string& program) {
  const char* list = std::getenv("PATH");
  std::string path = list == nullptr ? "" : list;
  for (path += ':'; !path.empty(); path.erase(0, path.find(':') + 1)) {
    const fs::path candidate = fs::path(path.substr(0, path.find(':'))) / program;
    std::error_code ignored;
    const bool file = fs::is_regular_file(candidate, ignored);
    if (file && ::access(candidate.c_str(), X_OK) == 0) return true;
  }
  return false;
}

fs::path new_folder() {
  std::error_code ignored;
  const fs::path usual = fs::temp_directory_path(ignored);
  std::string name =
      (usual.empty() || usual.string().size() > kLongestFolder ? fs::path("/tmp") : usual) /
      "posenc-mps-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorKind::kIo, {.scope = "sweep",
                                 .key = name,
                                 .rule = fmt::format("cannot be made: {}", std::strerror(errno)),
                                 .value = "",
                                 .hint = "set TMPDIR to a folder that can be written to"});
  }
  return name;
}

// Nothing where it had to be killed.
std::optional<Ending> run_in_time(Command command, std::chrono::milliseconds limit) {
  // The terminal's Ctrl-C is for the sweep, which lets the jobs save first.
  command.own_group = true;
  Process process(command);
  for (const auto since = Clock::now(); Clock::now() - since < limit;) {
    if (const auto ending = process.poll()) return ending;
    std::this_thread::sleep_for(kPause);
  }
  process.signal(SIGKILL);
  process.wait();
  return std::nullopt;
}

// One request on the control program's input; its answer, or nothing where no service took it.
std::optional<std::string> ask_control(const std::string& request, const fs::path& folder,
                                       const Environment& environment,
                                       std::chrono::milliseconds limit) {
  const fs::path answer = folder / "answer";
  fs::remove(answer);
  const std::string script = fmt::format("echo \"$1\" | {}", kControl);
  const auto ending = run_in_time({.words = {"/bin/sh", "-c", script, "sh", request},
                                   .folder = "",
                                   .output = answer.string(),
                                   .environment = environment},
                                  limit);
  if (!ending || !ending->fine()) return std::nullopt;
  return last_line(answer.string());
}

// Process ids, none before a server runs; anything else is an error message.
bool is_server_list(const std::optional<std::string>& answer) {
  return answer && answer->find_first_not_of("0123456789 ") == std::string::npos;
}

// Of the daemon in `pipes`; nothing where it wrote none, or where the number is another process's by now.
std::optional<pid_t> daemon_id(const fs::path& pipes) {
  pid_t id = 0;
  if (!(std::ifstream(pipes / fmt::format("{}.pid", kControl)) >> id) || id <= 1)
    return std::nullopt;
  std::string command;
  std::getline(std::ifstream(fmt::format("/proc/{}/cmdline", id)), command);
  return command.find(kControl) == std::string::npos ? std::nullopt : std::optional(id);
}

// What the service wrote last, of the server where it got that far.
std::string last_word(const fs::path& folder) {
  for (const char* name : {"log/server.log", "log/control.log", "start", "answer"}) {
    if (std::string said = last_line((folder / name).string()); !said.empty()) return said;
  }
  return "it gave no reason";
}

}  // namespace

GpuService::GpuService(std::chrono::milliseconds limit) : limit_(limit) {
  if (!in_path(kControl)) {
    remark_ = fmt::format("the jobs take turns on the GPU: {} is not in PATH", kControl);
    return;
  }
  try {
    folder_ = new_folder();
    if (is_server_list(ask_control("get_server_list", folder_, {}, limit_))) {
      remark_ = "the jobs share the GPU through the multi-process service that runs already";
      remove_tree(std::exchange(folder_, {}));
      return;
    }
    start();
  } catch (const std::exception& e) {
    fail(e.what());
  }
}

GpuService::~GpuService() { quit(); }

// The server starts now and not with the first job: where it cannot, every job would fail.
void GpuService::start() {
  fs::create_directory(folder_ / "pipe");
  fs::create_directory(folder_ / "log");
  const auto ending = run_in_time({.words = {kControl, "-d"},
                                   .folder = "",
                                   .output = (folder_ / "start").string(),
                                   .environment = folders()},
                                  limit_);
  may_run_ = !ending || ending->fine();
  if (!ending || !ending->fine()) {
    fail(ending ? fmt::format("{}: {}", ending_text(*ending), last_word(folder_)) : "it hangs");
    return;
  }
  bool asked = false;
  for (const auto since = Clock::now(); Clock::now() - since < limit_;) {
    asked = asked || ask(fmt::format("start_server -uid {}", ::getuid())).has_value();
    if (asked && lists_a_server()) {
      remark_ = "the jobs share the GPU through a multi-process service of this sweep";
      return;
    }
    std::this_thread::sleep_for(5 * kPause);
  }
  fail(last_word(folder_));
}

std::optional<std::string> GpuService::ask(const std::string& request) const {
  return ask_control(request, folder_, folders(), limit_);
}

bool GpuService::lists_a_server() const {
  const auto servers = ask("get_server_list");
  return is_server_list(servers) && !servers->empty();
}

void GpuService::fail(const std::string& why) {
  failed_ = true;
  remark_ = fmt::format(
      "the multi-process service did not start, so the jobs take turns on the GPU: {}", why);
  quit();
}

void GpuService::quit() noexcept {
  if (folder_.empty()) return;
  try {
    if (!may_run_ || has_quit()) {
      remove_tree(folder_);
    } else if (const auto id = daemon_id(folder_ / "pipe")) {
      ::kill(*id, SIGTERM);
    }
  } catch (const std::exception&) {  // the folder stays
  }
  folder_.clear();
}

bool GpuService::has_quit() const {
  try {
    return ask("quit").has_value();
  } catch (const std::exception&) {
    return false;
  }
}

Environment GpuService::folders() const {
  return {{"CUDA_MPS_PIPE_DIRECTORY", (folder_ / "pipe").string()},
          {"CUDA_MPS_LOG_DIRECTORY", (folder_ / "log").string()}};
}

Environment GpuService::job_environment() const {
  return folder_.empty() ? Environment{} : folders();
}

}  // namespace posenc::sweep
