#include "parallel/ring_schedule.h"

#include <limits>

namespace posenc::parallel {
namespace {

std::int64_t bound(std::int64_t window) {
  return window < 0 ? std::numeric_limits<std::int64_t>::max() : window;
}

}  // namespace

RingSchedule::RingSchedule(std::vector<std::int64_t> lengths, const RingMask& mask, bool ordered)
    : lengths_(std::move(lengths)),
      left_(bound(mask.window_left)),
      right_(mask.causal ? 0 : bound(mask.window_right)),
      together_(ordered && right_ > 0) {
  std::int64_t start = 0;
  for (const std::int64_t length : lengths_) {
    starts_.push_back(start);
    start += length;
  }
}

// Some query n and key m with n - left <= m <= n + right.
bool RingSchedule::sees(int rank, int slice) const {
  const std::int64_t nearest = first(rank) - (first(slice) + length(slice) - 1);
  const std::int64_t farthest = first(rank) + length(rank) - 1 - first(slice);
  return nearest <= left_ && -farthest <= right_;
}

int RingSchedule::slice(int rank, int step) const {
  const int at = together_ ? world() - 1 - step : (rank - step + world()) % world();
  return sees(rank, at) ? at : -1;
}

std::vector<int> RingSchedule::visitors(int of, int step) const {
  std::vector<int> ranks;
  for (int r = 0; r < world(); ++r) {
    if (r != of && slice(r, step) == of) ranks.push_back(r);
  }
  return ranks;
}

}  // namespace posenc::parallel
