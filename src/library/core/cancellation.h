// Cancels long kernel calls through a flag that another thread or a signal handler sets.
//
//   const Cancellation scope(&flag);
//   attention(...);         // skips the remaining tasks once the flag is set
//   throw_if_cancelled();   // throws if the output is incomplete
#pragma once

#include <atomic>
#include <exception>

namespace posenc {

class Interrupted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "interrupted"; }
};

// While one lives, parallel_for of the whole process looks at the flag before each task. A null flag:
// nothing changes.
class Cancellation {
 public:
  explicit Cancellation(const std::atomic<bool>* flag) noexcept;
  ~Cancellation();
  Cancellation(Cancellation&&) = delete;
  Cancellation& operator=(Cancellation&&) = delete;

 private:
  const std::atomic<bool>* before_;
};

// The flag of the innermost Cancellation, or null.
const std::atomic<bool>* cancellation_flag() noexcept;
// Throws Interrupted once that flag is up.
void throw_if_cancelled();

}  // namespace posenc
