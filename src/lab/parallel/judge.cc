#include "parallel/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace posenc::parallel {
namespace {

constexpr double kLongestSilence = 30.0;
constexpr double kPauseLooks = 5.0;  // intervals without a look: a suspended process
constexpr double kHangShare = 0.9;   // of the timeout: the job is to end within it

}  // namespace

std::string beat_text(const Beat& beat) { return fmt::format("{} {}", beat.count, beat.entered); }

Beat read_beat(const std::string& text) {
  long long count = 0;
  long long entered = 0;
  // NOLINTNEXTLINE(cert-err34-c): written by beat_text()
  if (std::sscanf(text.c_str(), "%lld %lld", &count, &entered) != 2) return {};
  return {count, entered};
}

Judge::Judge(int world, double timeout_s)
    : seen_(static_cast<std::size_t>(world)),
      timeout_(timeout_s),
      interval_(std::clamp(timeout_s / 20.0, 0.05, 1.0)) {}

void Judge::leave_out_pause(double now) {
  const double gap = now - last_look_.value_or(now);
  last_look_ = now;
  if (gap <= kPauseLooks * interval_) return;
  for (Seen& seen : seen_) {
    seen.beat_since += gap - interval_;
    seen.behind_since += gap - interval_;
  }
}

std::optional<Verdict> Judge::look(double now, const std::vector<Beat>& beats, bool broken) {
  leave_out_pause(now);
  std::int64_t furthest = 0;
  for (const Beat& beat : beats) furthest = std::max(furthest, beat.entered);
  for (std::size_t r = 0; r < seen_.size(); ++r) {
    Seen& seen = seen_[r];
    if (beats[r].count != seen.beat.count) seen.beat_since = now;
    const bool behind = beats[r].entered < furthest;
    if (!behind || !seen.behind || beats[r].entered != seen.beat.entered) seen.behind_since = now;
    seen.behind = behind;
    seen.beat = beats[r];
  }
  auto verdict = silent(now, broken);
  return verdict ? verdict : hanging(now);
}

std::optional<Verdict> Judge::silent(double now, bool broken) const {
  const double patient = std::min(timeout_ / 2.0, kLongestSilence);
  const double limit = broken ? std::min(patient, 5.0 * interval_) : patient;
  for (std::size_t r = 0; r < seen_.size(); ++r) {
    const double silence = now - seen_[r].beat_since;
    if (silence <= limit) continue;
    return Verdict{
        static_cast<int>(r),
        fmt::format("no sign of life for {:.1f} s: it was killed, or its host is gone", silence)};
  }
  return std::nullopt;
}

std::optional<Verdict> Judge::hanging(double now) const {
  for (std::size_t r = 0; r < seen_.size(); ++r) {
    const double late = now - seen_[r].behind_since;
    if (!seen_[r].behind || late <= kHangShare * timeout_) continue;
    return Verdict{static_cast<int>(r),
                   fmt::format("it hangs: other ranks have waited for it for {:.1f} s "
                               "(train.timeout is {:g} s)",
                               late, timeout_)};
  }
  return std::nullopt;
}

}  // namespace posenc::parallel
