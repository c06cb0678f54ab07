// The environment of a run, for environment.json: versions, hardware, seed and command line. No names
// of hosts or users.
#pragma once

#include <cstdint>
#include <optional>
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

// Jobs that the sweep of this process runs at the same time (POSENC_JOBS_AT_ONCE); nothing outside of one.
std::optional<std::int64_t> jobs_at_once();
// The environment of a run that goes on: it shared the machine with as many as in its fullest session.
Value with_jobs_at_once(Value environment);

// "2026-02-03T04:05:06Z"
std::string utc_time_text(std::int64_t unix_seconds);
// And back; nothing where the text is no such time.
std::optional<std::int64_t> utc_time(const std::string& text);
// Commit that this program was built from, "-dirty" appended where files differ; empty if unknown.
std::string build_commit();

// Memory of this process in bytes; 0 where the system does not say.
std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();

}  // namespace posenc::runs
