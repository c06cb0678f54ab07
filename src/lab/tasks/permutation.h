// Number `index` of an order of 0 .. size - 1 that is a function of the key alone, without a table.
#pragma once

#include <bit>
#include <cstdint>

#include "tasks/draw.h"

namespace posenc::tasks {

// Four rounds of a Feistel network permute the numbers of an even number of bits; those that are too large
// are permuted again, less than four times in the mean.
inline std::uint64_t permuted(std::uint64_t index, std::uint64_t size, std::uint64_t key) {
  const auto half = static_cast<int>(std::bit_width(size - 1) + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t next = left ^ (mixed(key ^ mixed(right + (round << 56))) & mask);
      left = right;
      right = next;
    }
    index = (left << half) | right;
  } while (index >= size);
  return index;
}

}  // namespace posenc::tasks
