#include "serve/deadlines.h"

#include <sys/socket.h>

#include <algorithm>

namespace posenc::serve {

Deadlines::Deadlines(std::chrono::milliseconds allowed)
    : allowed_(allowed), thread_([this] { watch(); }) {}

Deadlines::~Deadlines() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Deadlines::start(int socket) {
  const std::scoped_lock lock(mutex_);
  since_[socket] = std::chrono::steady_clock::now();
}

void Deadlines::forget(int socket) {
  const std::scoped_lock lock(mutex_);
  since_.erase(socket);
}

void Deadlines::watch() {
  const auto period = std::clamp<std::chrono::milliseconds>(
      allowed_ / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period, [this] { return ending_; })) {
    const auto now = std::chrono::steady_clock::now();
    // Under the lock, so that no socket is closed and reopened in between.
    std::erase_if(since_, [&](const auto& entry) {
      const bool late = now - entry.second >= allowed_;
      if (late) ::shutdown(entry.first, SHUT_RDWR);
      return late;
    });
  }
}

}  // namespace posenc::serve
