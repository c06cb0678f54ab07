// Closes connections whose request takes too long, even if they keep sending bytes slowly.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace posenc::serve {

class Deadlines {
 public:
  explicit Deadlines(std::chrono::milliseconds allowed);
  ~Deadlines();
  Deadlines(Deadlines&&) = delete;
  Deadlines& operator=(Deadlines&&) = delete;

  // A connection began, or finished a request: its time starts again.
  void start(int socket);
  // Before the socket is closed: its number may be another's at once.
  void forget(int socket);

 private:
  void watch();

  std::chrono::milliseconds allowed_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ending_ = false;
  std::map<int, std::chrono::steady_clock::time_point> since_;
  std::thread thread_;
};

}  // namespace posenc::serve
