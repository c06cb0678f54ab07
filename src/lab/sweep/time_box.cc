#include "sweep/time_box.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "posenc/core/error.h"

namespace posenc::sweep {
namespace {

using Seconds = TimeBox::Seconds;

constexpr double kMostMinutes = 1e6;            // two years: a number that clocks can add
constexpr Seconds kShortestJob = Seconds(0.1);  // less would be written as zero minutes

Seconds checked_length(double minutes) {
  if (minutes > 0.0 && minutes <= kMostMinutes) return Seconds(minutes * 60.0);
  throw Error(ErrorKind::kOutOfRange, {.scope = "sweep",
                                       .key = "--minutes",
                                       .rule = "must be above 0 and at most 1000000",
                                       .value = fmt::format("{}", minutes),
                                       .hint = "for example 30 or 7.5"});
}

}  // namespace

TimeBox::TimeBox(double minutes, Now now)
    : now_(std::move(now)), start_(now_()), length_(checked_length(minutes)) {}

Seconds TimeBox::margin() const {
  return std::min(std::clamp(0.05 * length_, Seconds(10.0), Seconds(60.0)), 0.5 * length_);
}

std::chrono::milliseconds TimeBox::service_limit() const {
  const auto quarter = std::chrono::duration_cast<std::chrono::milliseconds>(0.25 * margin());
  return std::min(kServiceLimit, quarter);
}

std::string TimeBox::job_minutes() const {
  return fmt::format("{:.4f}", for_a_job().count() / 60.0);
}

bool TimeBox::may_start() const { return for_a_job() >= kShortestJob; }

bool TimeBox::kills() const { return left() <= std::min(Seconds(2.0), 0.2 * margin()); }

}  // namespace posenc::sweep
