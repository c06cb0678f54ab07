// A counter-based random generator: the value at (seed, stream, index) is a pure function.
//
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). There is no
// state between draws: any thread can compute any draw, and a backward pass recomputes the draws of
// the forward pass from their indices.
#pragma once

#include <array>
#include <cstdint>

namespace posenc {

// Four 32-bit words at one counter value.
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept;

// A seed for part `part` of something seeded with `seed`. It is hashed, because sums of seeds and parts collide.
// At most 2^63 - 1, so that it fits a signed integer.
std::uint64_t derived_seed(std::uint64_t seed, std::uint64_t part) noexcept;

class Rng {
 public:
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) noexcept
      : seed_(seed), stream_(stream) {}

  std::uint32_t next_u32() noexcept;
  double uniform() noexcept;                                           // [0, 1), 53 bits
  double uniform(double low, double high) noexcept;                    // [low, high)
  std::int64_t integer(std::int64_t low, std::int64_t high) noexcept;  // both ends included
  double normal() noexcept;                                            // mean 0, variance 1

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t index_ = 0;
  std::array<std::uint32_t, 4> words_{};
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
