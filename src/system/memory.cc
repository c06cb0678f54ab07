#include "system/memory.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace posenc {
namespace {

namespace fs = std::filesystem;
using Bytes = std::optional<std::int64_t>;

// The number after `key` in a file of lines "key number"; an empty key: the first number.
Bytes number_in(const fs::path& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    std::int64_t number = 0;
    return rest >> number ? Bytes(number) : std::nullopt;  // "max": no limit
  }
  return std::nullopt;
}

Bytes smaller(const Bytes& a, const Bytes& b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

Bytes of_machine(const fs::path& root) {
  const fs::path file = root / "proc/meminfo";
  const Bytes free = number_in(file, "MemAvailable:");
  if (!free) return std::nullopt;
  return (*free + number_in(file, "SwapFree:").value_or(0)) * 1024;
}

// Names of the files of a control group; v1 and v2 differ.
struct Files {
  const char* limit;
  const char* used;
  const char* cache;  // in memory.stat: counted as used, and given back when asked for
};
constexpr Files kV1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr Files kV2 = {"memory.max", "memory.current", "inactive_file "};

// Of the group and of those above it, each of which has its own limit.
Bytes of_group(const fs::path& mount, fs::path group, const Files& files) {
  Bytes left;
  for (;; group = group.parent_path()) {
    const fs::path folder = mount / group.relative_path();
    const Bytes limit = number_in(folder / files.limit);
    const Bytes used = number_in(folder / files.used);
    if (limit && used) {
      const std::int64_t cache = number_in(folder / "memory.stat", files.cache).value_or(0);
      left = smaller(left,
                     std::max<std::int64_t>(0, *limit - std::max(*used - cache, std::int64_t{0})));
    }
    if (group == group.parent_path()) return left;
  }
}

Bytes of_groups(const fs::path& root) {
  Bytes left;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path group = line.substr(second + 1);
    if (controllers == ",,") {
      left = smaller(left, of_group(root / "sys/fs/cgroup", group, kV2));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = smaller(left, of_group(root / "sys/fs/cgroup/memory", group, kV1));
    }
  }
  return left;
}

Bytes of_address_space() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  const Bytes pages = number_in("/proc/self/statm");
  if (!pages) return std::nullopt;
  const std::int64_t taken = *pages * std::int64_t{::sysconf(_SC_PAGE_SIZE)};
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(limit.rlim_cur) - taken);
}

}  // namespace

std::optional<std::int64_t> available_memory_bytes(const std::string& root) {
  const fs::path at = root.empty() ? fs::path("/") : fs::path(root);
  return smaller(smaller(of_machine(at), of_groups(at)), of_address_space());
}

void keep_freed_memory() {
  constexpr int kLarge = std::numeric_limits<int>::max();
  constexpr int kMostOfOlderLibraries = 32 << 20;
  if (mallopt(M_MMAP_THRESHOLD, kLarge) == 0) mallopt(M_MMAP_THRESHOLD, kMostOfOlderLibraries);
  mallopt(M_TRIM_THRESHOLD, kLarge);
}

}  // namespace posenc
