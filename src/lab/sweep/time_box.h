// The time box of a sweep: how long jobs may run, when they have to save, and when they are killed.
//
//   start ............... asks_to_save ...... kills .. end
//   jobs start and train   SIGTERM: save      SIGKILL   the sweep has ended
//
// Jobs are given the time until asks_to_save. `posenc train` stops training when 5 % of that (0.5 s to 15 s) are
// left, and saves. Signals are for jobs that do not end by themselves.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace posenc::sweep {

// For one call of NVIDIA's multi-process service, and for its server to appear.
inline constexpr std::chrono::milliseconds kServiceLimit = std::chrono::seconds(10);

class TimeBox {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  using Now = std::function<Clock::time_point()>;

  // Begins now. An Error signed [sweep] where the minutes are not a positive number.
  explicit TimeBox(double minutes, Now now = Clock::now);

  [[nodiscard]] double minutes() const { return length_.count() / 60.0; }
  // Time in which jobs save: 5 % of the box, 10 s to 60 s, and at most half of the box.
  [[nodiscard]] Seconds margin() const;
  // kServiceLimit, and at most a quarter of the margin.
  [[nodiscard]] std::chrono::milliseconds service_limit() const;
  // What a job that starts now may use; below zero once asks_to_save.
  [[nodiscard]] Seconds for_a_job() const { return left() - margin(); }
  // The same in minutes, as --minutes takes it.
  [[nodiscard]] std::string job_minutes() const;

  [[nodiscard]] bool may_start() const;
  [[nodiscard]] bool asks_to_save() const { return for_a_job() <= Seconds::zero(); }
  // A little before the end, so that the sweep itself ends in time.
  [[nodiscard]] bool kills() const;

 private:
  [[nodiscard]] Seconds left() const { return length_ - (now_() - start_); }

  Now now_;
  Clock::time_point start_;
  Seconds length_;
};

}  // namespace posenc::sweep
