#include "train/prefetch.h"

#include <stdexcept>
#include <utility>

namespace posenc::train {

Prefetch::Prefetch(Make make, std::int64_t first, std::int64_t end, std::size_t depth)
    : make_(std::move(make)), next_(first), end_(end), depth_(depth) {
  if (depth_ > 0) thread_ = std::thread([this] { work(); });
}

Prefetch::~Prefetch() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

StepSamples Prefetch::next() {
  if (depth_ == 0) return make_(next_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || failure_ != nullptr; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  StepSamples samples = std::move(ready_.front());
  ready_.pop_front();
  ++next_;
  lock.unlock();
  changed_.notify_all();
  return samples;
}

void Prefetch::work() {
  try {
    for (std::int64_t step = next_; step < end_; ++step) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return ended_ || ready_.size() < depth_; });
        if (ended_) return;
      }
      keep(make_(step));
    }
    throw std::out_of_range("[prefetch] all steps are done");
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  changed_.notify_all();
}

void Prefetch::keep(StepSamples samples) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back(std::move(samples));
  }
  changed_.notify_all();
}

}  // namespace posenc::train
