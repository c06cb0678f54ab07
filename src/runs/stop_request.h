// SIGINT, SIGTERM and SIGHUP ask a loop to stop: it saves and returns. Another one, a second or more after
// the first, ends the process at once, as if nothing had been installed.
//
//   StopRequest stop;
//   for (...) { if (stop.requested()) break; ... }
//   return stop.exit_code();  // 130 after SIGINT
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace posenc::runs {

class StopRequest {
 public:
  // One at a time. A signal that was ignored (nohup) stays ignored. Limits on file sizes become
  // errors of write() instead of signals.
  StopRequest();
  ~StopRequest();  // handlers as they were
  StopRequest(StopRequest&&) = delete;
  StopRequest& operator=(StopRequest&&) = delete;

  [[nodiscard]] bool requested() const { return flag()->load(std::memory_order_relaxed); }
  // For loops of layers that know nothing of this one.
  [[nodiscard]] const std::atomic<bool>* flag() const;
  // The signal's number, 0 before one came.
  [[nodiscard]] int signal_number() const;
  // 128 + the signal's number, 0 before one came.
  [[nodiscard]] int exit_code() const;
  // As if a signal had come, for a program that stops itself.
  void request(int signal_number = SIGTERM);

 private:
  static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ};
  std::array<struct sigaction, kSignals.size()> old_{};
};

}  // namespace posenc::runs
