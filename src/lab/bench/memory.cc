#include "bench/memory.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace posenc::bench {
namespace {

// A line such as "VmHWM:     1234 kB" of /proc/self/status.
std::optional<std::int64_t> status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return std::nullopt;
}

bool reset_peak() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  return clear.good();
}

}  // namespace

void give_freed_memory_back() {
  constexpr int kSmallBlock = 128 * 1024;
  mallopt(M_MMAP_THRESHOLD, kSmallBlock);
  mallopt(M_TRIM_THRESHOLD, kSmallBlock);
}

std::optional<std::int64_t> peak_bytes_of(const std::function<void()>& work) {
  malloc_trim(0);
  const auto before = status_bytes("VmRSS");
  const bool counted = before.has_value() && reset_peak();
  work();
  const auto peak = status_bytes("VmHWM");
  if (!counted || !peak) return std::nullopt;
  return std::max<std::int64_t>(*peak - *before, 0);
}

}  // namespace posenc::bench
