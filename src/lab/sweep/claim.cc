#include "sweep/claim.h"

#include <fmt/format.h>

namespace posenc::sweep {
namespace {

// Attempts of the session before number `mine`, in a row, whose workers died.
int deaths(const std::filesystem::path& lease, const Holder& self, std::int64_t mine) {
  const std::vector<Attempt> all = attempts(lease);
  int count = 0;
  for (auto attempt = all.rbegin(); attempt != all.rend(); ++attempt) {
    if (attempt->number >= mine) continue;
    if (attempt->end || attempt->holder.session != self.session) break;
    ++count;
  }
  return count;
}

// Says why, where the job failed in this session.
bool failed_before(const std::filesystem::path& lease, const Holder& self, JobReport& report) {
  const std::optional<Attempt> last = last_attempt(lease);
  if (!last || !last->end || last->end->state != AttemptState::kFailed) return false;
  if (last->holder.session != self.session) return false;
  report.state = JobState::kFailed;
  report.message = last->end->message;
  return true;
}

// Whether it is another machine's, and nothing is known of its heartbeat yet.
bool is_undecided(const Attempt& attempt, Watch& watch) {
  return !attempt.end && life_of(attempt.holder) == Life::kUnknown &&
         watch.look(attempt) == Watch::Sight::kWaiting;
}

}  // namespace

Claim claim_job(const std::filesystem::path& out, JobReport& report, const Holder& self,
                Watch& watch) {
  const std::filesystem::path folder = lease_folder(out, report.job.hash);
  if (report.state == JobState::kInUse) report.state = JobState::kNew;  // unless its run says more
  refresh(report);
  if (!is_waiting(report) || failed_before(folder, self, report)) return {};
  Claim claim{.lease = Lease::take(folder, self, watch), .look_again = false};
  if (!claim.lease) {
    const std::optional<Attempt> other = last_attempt(folder);
    report.state = JobState::kInUse;
    report.message = other ? "held by " + holder_text(other->holder) : "";
    claim.look_again = other && is_undecided(*other, watch);
    return claim;
  }
  refresh(report);  // the process that held it before may have finished it
  if (!is_waiting(report)) {
    claim.lease->end({AttemptState::kNothingToDo, ""});
    claim.lease.reset();
  } else if (const int died = deaths(folder, self, claim.lease->number()); died >= kMostDeaths) {
    report.state = JobState::kFailed;
    report.message = fmt::format("its worker died {} times", died);
    claim.lease->end({AttemptState::kFailed, report.message});
    claim.lease.reset();
  }
  return claim;
}

}  // namespace posenc::sweep
