// Leases: processes agree through files which of them trains a run, on one machine or on a shared file system.
//
// The lease of a run is a folder, OUT/leases/HASH. Each attempt to train the run has a number n, from 1:
//
//   n        who made the attempt (Holder, JSON). Made with link(2): of many processes that want number n exactly one
//            succeeds, on NFS too. It is never changed, replaced or removed, so a number is given once.
//   n.beat   a counter that the holder increases while it lives
//   n.end    how the attempt ended (AttemptEnd, JSON). Without it the run is held
//
// A process may make attempt n + 1 where n has ended, where n was made by a process of this machine that is gone, or
// where n.beat did not change for the holder's limit. That time is measured by the clock of the process that
// watches, from its own first look, so clocks that differ between machines do no harm.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "posenc/core/fields.h"

namespace posenc::sweep {

// Seconds without a heartbeat after which a lease can be taken over. NFS clients may see files a minute late.
inline constexpr double kLeaseSeconds = 90.0;

struct Holder {
  std::string host;
  std::int64_t pid = 0;
  std::string
      process;  // tells it from other processes of that number: boot, namespace, time of its start
  std::string job;      // of the scheduler, such as 1234_5; empty: none
  std::string session;  // workers of one submission share it
  double limit = kLeaseSeconds;
  std::string since;  // UTC, for people

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("host", self.host, FieldRule{.doc = "machine of the worker"});
    visit("pid", self.pid, FieldRule{.doc = "its process"});
    visit("process", self.process, FieldRule{.doc = "boot, namespace and start of that process"});
    visit("job", self.job, FieldRule{.doc = "job of the scheduler"});
    visit("session", self.session, FieldRule{.doc = "shared by the workers of one submission"});
    visit("limit", self.limit, FieldRule{.doc = "seconds without a heartbeat until it is lost"});
    visit("since", self.since, FieldRule{.doc = "when the attempt began, UTC"});
  }
  bool operator==(const Holder&) const = default;
};

// This process. Its job is that of Slurm's environment, if it has one; its session is `session`, or a random one.
Holder this_holder(const std::string& session = "", double limit = kLeaseSeconds);
// "host vm, process 4242" or "host vm, job 1234_5"
std::string holder_text(const Holder& holder);

enum class Life { kUnknown, kAlive, kGone };
// Of a process of this machine; kUnknown for one of another machine.
Life life_of(const Holder& holder);

enum class AttemptState { kFinished, kDiverged, kStopped, kFailed, kNothingToDo, kRetry };
constexpr std::array<std::string_view, 6> enum_names(AttemptState /*tag*/) {
  return {"finished", "diverged", "stopped", "failed", "nothing_to_do", "retry"};
}

struct AttemptEnd {
  AttemptState state = AttemptState::kStopped;
  std::string message;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("state", self.state, FieldRule{.doc = "what became of the run", .required = true});
    visit("message", self.message, FieldRule{.doc = "why it failed"});
  }
};

struct Attempt {
  std::int64_t number = 0;
  Holder holder;
  std::string beat;               // content of the heartbeat
  std::optional<AttemptEnd> end;  // none: held, or its holder died
  // Seconds since the heartbeat by the clocks of the file system and of this machine: for people, who know whether those
  // agree. Nothing is decided by it.
  double beat_age = 0.0;
};

// The folder of the lease of a run with this hash.
std::filesystem::path lease_folder(const std::filesystem::path& out, const std::string& hash);
// All attempts, the first one first. A holder that cannot be read has no host.
std::vector<Attempt> attempts(const std::filesystem::path& lease);
std::optional<Attempt> last_attempt(const std::filesystem::path& lease);

// What one process has seen of a heartbeat, by its own clock.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;
  enum class Sight { kWaiting, kBeats, kLost };

  explicit Watch(Now now = Clock::now) : now_(std::move(now)) {}
  // Of an attempt that has not ended: kBeats once the heartbeat changed since the first look, kLost once it has not
  // for the holder's limit.
  Sight look(const Attempt& attempt);

 private:
  Now now_;
  std::int64_t number_ = 0;
  std::string beat_;
  bool changed_ = false;
  Clock::time_point since_;
};

// Held by this process from take() to end(). A process that dies leaves it to others after the limit.
class Lease {
 public:
  // Nothing where another process holds it or was quicker. An Error of kind kIo where the folder cannot be written.
  static std::optional<Lease> take(const std::filesystem::path& folder, const Holder& self,
                                   Watch& watch, Watch::Now now = Watch::Clock::now);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&&) = delete;
  ~Lease();  // as stopped, where end() was not called

  [[nodiscard]] std::int64_t number() const { return number_; }
  // Beats six times in the limit; call it often. False once another process took the lease over: what this one does
  // with the run must end at once.
  [[nodiscard]] bool keep();
  void end(const AttemptEnd& end);

 private:
  Lease(std::filesystem::path folder, std::int64_t number, double limit, Watch::Now now);
  [[nodiscard]] bool taken_over() const;
  [[nodiscard]] bool write_beat();

  std::filesystem::path folder_;
  std::int64_t number_;
  std::chrono::duration<double> limit_;
  Watch::Now now_;
  Watch::Clock::time_point last_beat_;
  std::uint64_t beats_ = 0;
  bool lost_ = false;
  bool ended_ = false;
};

// Removes what killed processes left half-written below OUT/leases.
void tidy_leases(const std::filesystem::path& out);

}  // namespace posenc::sweep
