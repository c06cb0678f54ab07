// Who holds a lease: this process as others find it, and whether a process of this machine still lives.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "sweep/lease.h"

namespace posenc::sweep {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "1234_5" of an array, "1234" of a single job.
std::string slurm_job() {
  const std::string array = environment("SLURM_ARRAY_JOB_ID");
  if (array.empty()) return environment("SLURM_JOB_ID");
  return array + "_" + environment("SLURM_ARRAY_TASK_ID");
}

// Field 22 of /proc/PID/stat: ticks since boot. The name in field 2 may hold blanks and brackets.
std::string start_of(std::int64_t pid) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  fields >> field;
  if (field == "Z" || field == "X") return "";  // ended, and not yet waited for
  for (int number = 4; number <= 22; ++number) fields >> field;
  return field;
}

// Numbers of processes mean the same thing to all that share this.
std::string place() {
  std::error_code ignored;
  return first_line("/proc/sys/kernel/random/boot_id") + "/" +
         std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string random_session() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Holder this_holder(const std::string& session, double limit) {
  Holder holder;
  holder.host = host_name();
  holder.pid = ::getpid();
  holder.process = place() + "/" + start_of(holder.pid);
  holder.job = slurm_job();
  holder.session = session.empty() ? random_session() : session;
  holder.limit = limit;
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  holder.since = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now);
  return holder;
}

std::string holder_text(const Holder& holder) {
  if (holder.host.empty()) return "unknown";
  return holder.job.empty() ? fmt::format("host {}, process {}", holder.host, holder.pid)
                            : fmt::format("host {}, job {}", holder.host, holder.job);
}

Life life_of(const Holder& holder) {
  const std::string here = place() + "/";
  if (holder.pid <= 0 || !holder.process.starts_with(here)) return Life::kUnknown;
  const std::string start = start_of(holder.pid);
  return start == holder.process.substr(here.size()) ? Life::kAlive : Life::kGone;
}

}  // namespace posenc::sweep
