// Reads metrics.jsonl while it grows: the rows since the last read, and the speed of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/value.h"
#include "serve/files.h"

namespace posenc::serve {

struct MetricsPart {
  std::uint64_t from = 0;    // where the lines begin: as asked, or 0 after a restart
  std::uint64_t next = 0;    // where to go on reading
  bool restarted = false;    // the file no longer has what was read before: forget it
  bool more = false;         // there are further whole lines
  std::int64_t damaged = 0;  // lines that are no JSON
  std::vector<std::string> lines;
};

inline constexpr std::size_t kMetricsPart = 1U << 20U;

// Whole lines from a byte offset on, up to `longest` bytes of them. A line that is still being written is
// left for the next time. A run that is resumed cuts off rows it will write again; an offset that is then
// past the end or within a line starts from the beginning.
MetricsPart metrics_since(const File& file, std::uint64_t from, std::size_t longest = kMetricsPart);

// {"from": 0, "next": 123, "restarted": false, "more": false, "damaged": 0, "rows": [...]}
std::string metrics_json(const MetricsPart& part);

// What the last rows say.
struct Pace {
  std::int64_t step = 0;
  std::optional<double> loss;
  std::optional<double> accuracy;
  std::optional<double> tokens_per_s;
  std::optional<double> seconds_per_step;
};
Pace read_pace(const File& metrics);

}  // namespace posenc::serve
