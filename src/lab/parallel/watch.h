// A thread that publishes this rank's heartbeat, reads those of the others, and ends the process when a rank has failed: the
// main thread may be blocked inside the transport, which cannot be interrupted.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include "parallel/board.h"

namespace posenc::parallel {

class Watch {
 public:
  // Called on the watching thread, once, for a failure of any rank; it ends the process.
  using OnFailure = std::function<void(const Failure&)>;

  Watch(const Launch& launch, Board board, double timeout_s, OnFailure on_failure);
  ~Watch();
  Watch(Watch&&) = delete;
  Watch& operator=(Watch&&) = delete;

  // The main thread begins an exchange.
  void note_exchange() { ++entered_; }
  // An exchange has failed: a rank may be gone. Waits for a verdict, which ends the process; returns where none comes.
  void wait_for_verdict();

 private:
  void work();
  void show_beat();

  Launch launch_;
  Board board_;
  double timeout_;
  OnFailure on_failure_;
  std::atomic<std::int64_t> entered_ = 0;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> ended_ = false;
  std::int64_t count_ = 0;
  std::thread thread_;
};

}  // namespace posenc::parallel
