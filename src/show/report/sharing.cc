#include "report/sharing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace posenc::report {
namespace {

std::int64_t at_once(const Run& run) { return run.jobs_at_once.value_or(1); }

struct Span {
  double begin = 0.0;
  double end = 0.0;
};

std::optional<Span> training_time(const Run& run) {
  if (!run.started || !run.results || !run.on_gpu) return std::nullopt;
  const auto begin = static_cast<double>(*run.started);
  return Span{begin, begin + run.results->train_seconds};
}

// A copy of a run has its times, and was no process.
bool overlap(const Run& a, const Run& b) {
  const auto one = training_time(a);
  const auto other = training_time(b);
  if (!one || !other || a.machine != b.machine || a.config == b.config) return false;
  return one->begin < other->end && other->begin < one->end;
}

}  // namespace

std::set<const Run*> overlapping_runs(const std::vector<Run>& runs) {
  std::set<const Run*> found;
  for (const Run& run : runs) {
    const bool crossed =
        !run.jobs_at_once && std::any_of(runs.begin(), runs.end(),
                                         [&](const Run& other) { return overlap(run, other); });
    if (crossed) found.insert(&run);
  }
  return found;
}

std::string sharing_note(const std::vector<const Run*>& runs,
                         const std::set<const Run*>& overlapping) {
  std::set<std::int64_t> counts;
  std::int64_t most_on_gpu = 1;
  bool overlapped = false;
  for (const Run* run : runs) {
    counts.insert(at_once(*run));
    if (run->on_gpu) most_on_gpu = std::max(most_on_gpu, at_once(*run));
    overlapped = overlapped || overlapping.contains(run);
  }
  std::string why;
  if (most_on_gpu > 1) {
    why = fmt::format("up to {} runs shared the GPU", most_on_gpu);
  } else if (overlapped) {
    why = "runs on the GPU overlapped in time";
  } else if (counts.size() > 1) {
    why = fmt::format("runs were trained {} at a time", fmt::join(counts, " and "));
  }
  if (why.empty()) return "";
  return fmt::format("training speeds are not compared: {}; train with --jobs 1 to compare them",
                     why);
}

}  // namespace posenc::report
