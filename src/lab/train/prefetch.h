// Draws the samples of coming steps on a separate thread while the device computes. Samples are a
// function of the step, so prefetching does not change them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "train/samples.h"

namespace posenc::train {

class Prefetch {
 public:
  using Make = std::function<StepSamples(std::int64_t step)>;

  // Steps first .. end - 1 in order, at most `depth` of them ahead; 0: each when it is asked for, without a
  // thread.
  Prefetch(Make make, std::int64_t first, std::int64_t end, std::size_t depth);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  [[nodiscard]] std::int64_t next_step() const { return next_; }
  // Of next_step(). Throws what making them threw.
  StepSamples next();

 private:
  void work();
  void keep(StepSamples samples);

  Make make_;
  std::int64_t next_;
  std::int64_t end_;
  std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepSamples> ready_;
  std::exception_ptr failure_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace posenc::train
