// Random draws of one row, made of core's counter-based generator: nothing is shared between rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "posenc/core/rng.h"

namespace posenc::tasks {

// A probability as the number of 32-bit words that mean yes: one compare a draw, and 0 and 1 exact.
class Probability {
 public:
  constexpr Probability() = default;
  explicit Probability(double p) : words_(static_cast<std::uint64_t>(std::llround(p * 0x1.0p32))) {}
  [[nodiscard]] bool includes(std::uint32_t word) const { return word < words_; }

 private:
  std::uint64_t words_ = 0;
};

class Draw {
 public:
  Draw(std::uint64_t key, std::uint64_t row) : rng_(key, row) {}

  bool happens(Probability p) { return p.includes(rng_.next_u32()); }
  // Uniform in 0 .. n-1; uneven by at most n / 2^32.
  std::int32_t below(std::int64_t n) {
    const std::uint64_t product = std::uint64_t{rng_.next_u32()} * static_cast<std::uint64_t>(n);
    return static_cast<std::int32_t>(product >> 32);
  }
  // The same for numbers that need more than 32 bits.
  std::int64_t below_large(std::int64_t n) { return rng_.integer(0, n - 1); }
  double uniform() { return rng_.uniform(); }

 private:
  Rng rng_;
};

// Different numbers below n: the front of a permutation that is put in order again afterwards.
class DistinctNumbers {
 public:
  explicit DistinctNumbers(std::int64_t n) : numbers_(static_cast<std::size_t>(n)) {
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }
  std::int32_t next(Draw& draw) {
    const std::size_t taken = swapped_.size();
    const auto place = taken + static_cast<std::size_t>(
                                   draw.below(static_cast<std::int64_t>(numbers_.size() - taken)));
    std::swap(numbers_[taken], numbers_[place]);
    swapped_.push_back(place);
    return numbers_[taken];
  }
  void restart() {
    for (; !swapped_.empty(); swapped_.pop_back()) {
      std::swap(numbers_[swapped_.size() - 1], numbers_[swapped_.back()]);
    }
  }

 private:
  std::vector<std::int32_t> numbers_;
  std::vector<std::size_t> swapped_;
};

// One step of splitmix64 (Steele et al. 2014): near keys give unrelated streams.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace posenc::tasks
