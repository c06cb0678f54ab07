// The schedule of a ring: the slice of keys that each rank processes at each step.
//
//   step s of rank r:  slice r - s, modulo the ranks          rows start with their own keys
//   or slice N - 1 - s on all ranks at the same time          where rows also see keys after them and carry a sum
//
// The backward makes the same steps in the opposite order.
#pragma once

#include <cstdint>
#include <vector>

namespace posenc::parallel {

struct RingMask {
  bool causal = false;
  std::int64_t window_left = -1;  // as in AttentionMask
  std::int64_t window_right = -1;
};

class RingSchedule {
 public:
  // `lengths` are the tokens of each rank; `ordered`: rows carry a sum from the last keys to the first.
  RingSchedule(std::vector<std::int64_t> lengths, const RingMask& mask, bool ordered);

  [[nodiscard]] int world() const { return static_cast<int>(lengths_.size()); }
  [[nodiscard]] std::int64_t first(int rank) const {  // place of its first token
    return starts_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::int64_t length(int rank) const {
    return lengths_[static_cast<std::size_t>(rank)];
  }
  // The slice that a rank visits; -1 where none of its queries sees a key of it.
  [[nodiscard]] int slice(int rank, int step) const;
  // The ranks that visit a slice at a step, its owner left out.
  [[nodiscard]] std::vector<int> visitors(int of, int step) const;

 private:
  [[nodiscard]] bool sees(int rank, int slice) const;

  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> starts_;
  std::int64_t left_;
  std::int64_t right_;
  bool together_;  // all ranks visit one slice at a time
};

}  // namespace posenc::parallel
