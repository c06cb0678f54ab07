// SIGINT, SIGTERM, SIGHUP and the end of a time box request a loop to stop: it saves and returns. Another signal, a
// second or more after the first, ends the process immediately, like the default handler.
//
//   StopRequest stop;
//   for (...) { if (stop.requested()) break; ... }
//   return stop.exit_code();  // 130 after SIGINT
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <string>

namespace posenc {

// Exit code of a command that a time box ended: not done, and the same command goes on (EX_TEMPFAIL).
inline constexpr int kTimeIsUp = 75;

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
  // 128 + the signal's number, kTimeIsUp after a time box, 0 before either.
  [[nodiscard]] int exit_code() const;
  // "by a signal", or "by the time box of 9 minutes".
  [[nodiscard]] std::string reason() const;
  // Requests a stop when a box of so many minutes, which begins now, is almost over: what remains is for saving.
  void end_within(double minutes);
  // As if a signal had come, for a program that stops itself.
  void request(int signal_number = SIGTERM);

 private:
  static constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGXFSZ, SIGALRM};
  std::array<struct sigaction, kSignals.size()> old_{};
  double minutes_ = 0.0;  // of the time box
};

}  // namespace posenc
