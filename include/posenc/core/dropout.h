// Counter-based dropout: whether a weight is dropped is a pure function of its indices.
//
//   word = philox4x32({key / 4, query, head, batch}, {low half of seed, high half})[key % 4]
//   the weight is dropped where word < floor(rate * 2^32), else multiplied by 1 / (1 - rate)
//
// The reference and all kernels use this rule, so they drop the same weights for any tile size and
// number of threads, and the backward pass recomputes the mask of the forward pass.
// Four neighbouring keys share one draw of the generator. key, query, head (of the query) and batch
// are indices into the tensors, not positions; each wraps at 2^32 (key at 2^34).
#pragma once

#include <cstddef>
#include <cstdint>

#include "posenc/core/rng.h"

namespace posenc {

struct Dropout {
  double rate = 0.0;  // in [0, 1)
  std::uint64_t seed = 0;

  [[nodiscard]] bool active() const noexcept { return rate > 0.0; }
  // Words below this are dropped.
  [[nodiscard]] std::uint32_t threshold() const noexcept {
    return static_cast<std::uint32_t>(rate * 0x1.0p32);
  }
};

// What a weight is multiplied by: 0, or 1 / (1 - rate).
inline double dropout_factor(const Dropout& dropout, std::int64_t batch, std::int64_t head,
                             std::int64_t query, std::int64_t key) noexcept {
  if (!dropout.active()) return 1.0;
  const auto words = philox4x32(
      {static_cast<std::uint32_t>(key / 4), static_cast<std::uint32_t>(query),
       static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(batch)},
      {static_cast<std::uint32_t>(dropout.seed), static_cast<std::uint32_t>(dropout.seed >> 32)});
  const std::uint32_t word = words[static_cast<std::size_t>(key % 4)];
  return word < dropout.threshold() ? 0.0 : 1.0 / (1.0 - dropout.rate);
}

}  // namespace posenc

// SPDX-License-Identifier: MIT
