#include "system/stop_request.h"

#include <fmt/format.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "posenc/core/error.h"

namespace posenc {
namespace {

std::atomic<bool> asked = false;
std::atomic<int> number_seen = 0;
std::atomic<bool> installed = false;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler sets them");

// Some programs (timeout) signal a process and then its group: what comes twice within a second is one.
constexpr std::int64_t kOneRequestNs = 1'000'000'000;
std::atomic<std::int64_t> seen_at_ns = 0;  // the first signal; 0: none yet
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler sets it");

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// clock_gettime, sigaction, raise and stores to lock-free atomics are all that a handler may do. A later
// request has the signal's default effect: the process ends with the code that shells know.
extern "C" void note_request(int number) {
  const std::int64_t now = now_ns();
  if (!asked) number_seen = number;
  asked = true;
  if (number == SIGALRM) return;  // a time box never cuts the saving short
  if (seen_at_ns == 0) seen_at_ns = now;
  if (now - seen_at_ns < kOneRequestNs) return;
  struct sigaction ends {};
  ends.sa_handler = SIG_DFL;
  ::sigaction(number, &ends, nullptr);
  ::raise(number);  // delivered when this handler has returned
}

// What a time box leaves for saving, in seconds.
constexpr double kLeastToSave = 0.5;
constexpr double kMostToSave = 15.0;

// SIGALRM once after so many microseconds; 0: none.
void set_alarm(std::int64_t microseconds) {
  itimerval timer{};
  timer.it_value.tv_sec = microseconds / 1'000'000;
  timer.it_value.tv_usec = microseconds % 1'000'000;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

StopRequest::StopRequest() {
  if (installed.exchange(true)) {
    throw Error(ErrorKind::kConflict, {.scope = "signals",
                                       .key = "",
                                       .rule = "are watched already",
                                       .value = "",
                                       .hint = "pass the first StopRequest on"});
  }
  asked = false;
  number_seen = 0;
  seen_at_ns = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGXFSZ ? SIG_IGN : note_request;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], nullptr, &old_[i]);
    // nohup is respected; a time box is asked for, whatever the parent process ignored.
    const bool respected = old_[i].sa_handler == SIG_IGN && kSignals[i] != SIGALRM;
    if (!respected) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  if (minutes_ > 0.0) set_alarm(0);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
  installed = false;
}

const std::atomic<bool>* StopRequest::flag() const { return &asked; }

int StopRequest::signal_number() const { return number_seen; }

int StopRequest::exit_code() const {
  if (number_seen == SIGALRM) return kTimeIsUp;
  return number_seen == 0 ? 0 : 128 + number_seen;
}

std::string StopRequest::reason() const {
  if (number_seen != SIGALRM) return "by a signal";
  return fmt::format("by the time box of {:g} minutes", minutes_);
}

void StopRequest::end_within(double minutes) {
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  minutes_ = minutes;
  const double seconds = 60.0 * minutes;
  const double to_save = std::clamp(0.05 * seconds, kLeastToSave, kMostToSave);
  set_alarm(std::llround(1e6 * std::max(seconds - to_save, 1e-3)));
}

void StopRequest::request(int signal_number) {
  number_seen = signal_number;
  seen_at_ns = now_ns();
  asked = true;
}

}  // namespace posenc
