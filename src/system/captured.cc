#include "system/captured.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "core/open_file.h"
#include "core/value.h"
#include "system/file_errors.h"

namespace posenc {

Captured run_captured(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Descriptor memory(::memfd_create("output", MFD_CLOEXEC));
  if (memory.number() < 0) throw system_error("memory", "cannot hold an output", errno, "");
  Command command;
  command.words = words;
  command.output = fmt::format("/proc/{}/fd/{}", ::getpid(), memory.number());
  command.own_group = true;
  Process process(command);
  Captured captured;
  const auto start = Clock::now();
  std::optional<Ending> ending = process.poll();
  for (; !ending && Clock::now() - start < limit; ending = process.poll()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (!ending) {
    captured.timed_out = true;
    process.signal(SIGKILL);
    ending = process.wait();
  }
  captured.ending = *ending;
  captured.output = read_file(command.output);
  return captured;
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    folder.append("/").append(program);
    if (::access(folder.c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace posenc
