#include "runs/stop_request.h"

#include "posenc/core/error.h"

namespace posenc::runs {
namespace {

std::atomic<bool> asked = false;
std::atomic<int> number_seen = 0;
std::atomic<bool> installed = false;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler sets them");

// sigaction and stores to lock-free atomics are all that a handler may do. From now on each of the
// signals has its default effect: the second one ends the process with the code that shells know.
extern "C" void note_request(int number) {
  number_seen = number;
  asked = true;
  struct sigaction ends {};
  ends.sa_handler = SIG_DFL;
  for (const int other : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction current {};
    if (::sigaction(other, nullptr, &current) == 0 && current.sa_handler == note_request) {
      ::sigaction(other, &ends, nullptr);
    }
  }
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
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = kSignals[i] == SIGXFSZ ? SIG_IGN : note_request;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    ::sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
  installed = false;
}

const std::atomic<bool>* StopRequest::flag() const { return &asked; }

int StopRequest::signal_number() const { return number_seen; }

int StopRequest::exit_code() const { return number_seen == 0 ? 0 : 128 + number_seen; }

void StopRequest::request(int signal_number) {
  number_seen = signal_number;
  asked = true;
}

}  // namespace posenc::runs
