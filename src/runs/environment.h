// What a run ran on, for environment.json: versions, hardware, seed and command line. No names of
// hosts or users.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/value.h"

namespace posenc::runs {

// What only the caller knows.
struct EnvironmentInput {
  std::vector<std::string> command_line;
  std::int64_t seed = 0;
  int threads = 0;
  std::string torch_version;  // empty: without libtorch
  Value::Map more;            // further members, such as the device
};

Value describe_environment(const EnvironmentInput& input);

// "2026-02-03T04:05:06Z"
std::string utc_time_text(std::int64_t unix_seconds);
// Commit that this program was built from, "-dirty" appended where files differ; empty if unknown.
std::string build_commit();

// Memory of this process in bytes; 0 where the system does not say.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace posenc::runs
