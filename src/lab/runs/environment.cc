#include "runs/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>
#include <thread>
#include <utility>

#include "posenc/core/version.h"

namespace posenc::runs {
namespace {

Value text(std::string value) { return Value::of_string(std::move(value)); }
Value text_or_null(std::string value) { return value.empty() ? Value() : text(std::move(value)); }
Value whole(std::int64_t number) { return {Value::Data(number)}; }

// The value after "key<separator>" in the first line of a file that begins with it.
std::string line_value(const std::string& path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find(separator);
    if (!line.starts_with(key) || at == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t\"", at + 1);
    const std::size_t end = line.find_last_not_of(" \t\"");
    return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
  }
  return "";
}

// Arm's kernel gives numbers where others give names.
std::string arm_model() {
  const std::string implementer = line_value("/proc/cpuinfo", "CPU implementer", ':');
  const std::string part = line_value("/proc/cpuinfo", "CPU part", ':');
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {
      {{"0xd0c", "Neoverse-N1"},
       {"0xd40", "Neoverse-V1"},
       {"0xd49", "Neoverse-N2"},
       {"0xd4f", "Neoverse-V2"},
       {"0xd08", "Cortex-A72"}}};
  for (const auto& [number, name] : kNames) {
    if (implementer == "0x41" && part == number) return fmt::format("Arm {}", name);
  }
  return part.empty() ? "" : fmt::format("implementer {}, part {}", implementer, part);
}

std::string cpu_model() {
  const std::string name = line_value("/proc/cpuinfo", "model name", ':');
  return name.empty() ? arm_model() : name;
}

// Cores that this process may use, which in a container are fewer than the machine has.
std::int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::thread::hardware_concurrency();
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

std::string operating_system() {
  struct utsname names {};
  if (::uname(&names) != 0) return "";
  const std::string pretty = line_value("/etc/os-release", "PRETTY_NAME", '=');
  return fmt::format("{}{}{} {}", pretty, pretty.empty() ? "" : ", ", names.sysname, names.release);
}

std::string machine() {
  struct utsname names {};
  return ::uname(&names) == 0 ? names.machine : "";
}

}  // namespace

Value describe_environment(const EnvironmentInput& input) {
  Value::List command;
  for (const std::string& word : input.command_line) command.push_back(text(word));
  const std::int64_t memory =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGE_SIZE)};
  const std::optional<std::int64_t> jobs = jobs_at_once();
  Value::Map map = {{"posenc", text(POSENC_VERSION_STRING)},
                    {"commit", text_or_null(build_commit())},
                    {"compiler", text(compiler())},
                    {"torch", text_or_null(input.torch_version)},
                    {"cpu", text_or_null(cpu_model())},
                    {"architecture", text_or_null(machine())},
                    {"cores", whole(usable_cores())},
                    {"threads", whole(input.threads)},
                    {"jobs_at_once", jobs ? whole(*jobs) : Value()},
                    {"memory_bytes", whole(memory)},
                    {"os", text_or_null(operating_system())},
                    {"started", text(utc_time_text(std::time(nullptr)))},
                    {"seed", whole(input.seed)},
                    {"command_line", {Value::Data(std::move(command))}}};
  map.insert(map.end(), input.more.begin(), input.more.end());
  return {Value::Data(std::move(map))};
}

std::optional<std::int64_t> jobs_at_once() {
  const char* variable = std::getenv("POSENC_JOBS_AT_ONCE");
  const std::string_view given = variable == nullptr ? "" : variable;
  std::int64_t jobs = 0;
  const auto read = std::from_chars(given.data(), given.data() + given.size(), jobs);
  const bool number = read.ec == std::errc() && read.ptr == given.data() + given.size();
  return number && jobs >= 1 ? std::optional(jobs) : std::nullopt;
}

Value with_jobs_at_once(Value environment) {
  const auto now = jobs_at_once();
  auto* members = environment.get_if<Value::Map>();
  if (!now || members == nullptr) return environment;
  const auto known = std::find_if(members->begin(), members->end(), [](const Member& member) {
    return member.key == "jobs_at_once";
  });
  const auto* before = known == members->end() ? nullptr : known->value.get_if<std::int64_t>();
  // A run that was alone now may have had company before.
  if (*now <= (before == nullptr ? 1 : *before)) return environment;
  if (known == members->end()) {
    members->push_back({"jobs_at_once", whole(*now)});
  } else {
    known->value = whole(*now);
  }
  return environment;
}

std::string utc_time_text(std::int64_t unix_seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
}

std::optional<std::int64_t> utc_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return std::int64_t{::timegm(&parts)};
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  return file >> total >> resident ? resident * std::int64_t{::sysconf(_SC_PAGE_SIZE)} : 0;
}

std::int64_t peak_resident_bytes() {
  struct rusage usage {};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? std::int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace posenc::runs
