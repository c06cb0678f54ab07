// The positions of tokens, in one of three forms. None of them copies data.
#pragma once

#include <cstdint>
#include <span>

#include "posenc/core/status.h"

namespace posenc {

// Set at most one of ids, offsets and cumulative. By default token t has position t.
struct PositionsView {
  // Position ids of 32 or 64 bits, [batch, tokens, axes], with strides in elements. A stride of 0
  // broadcasts: one row for all sequences, or one coordinate for all axes.
  const void* ids = nullptr;
  bool ids_are_64_bit = true;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 1;
  std::int64_t axis_stride = 0;

  // Sequence b starts at position offsets[b], for decoding or for chunks of a long sequence.
  std::span<const std::int64_t> offsets = {};

  // Packed sequences in one row of tokens: cumulative lengths {0, n_1, n_1 + n_2, .., tokens}. Each
  // sequence starts at position 0.
  std::span<const std::int64_t> cumulative = {};

  [[nodiscard]] bool given() const noexcept {
    return ids != nullptr || !offsets.empty() || !cumulative.empty();
  }
  // Position of a token along an axis. Call check() first.
  [[nodiscard]] std::int64_t at(std::int64_t batch, std::int64_t token,
                                std::int64_t axis) const noexcept;
  // Minimum and maximum position of a tensor with at least one token. Call check() first.
  struct Range {
    std::int64_t least;
    std::int64_t most;
  };
  [[nodiscard]] Range range(std::int64_t batches, std::int64_t tokens,
                            std::int64_t axes) const noexcept;
  // Checks that the form fits the tensor. `name` is the argument's name in the message.
  [[nodiscard]] Status check(const char* name, std::int64_t batches,
                             std::int64_t tokens) const noexcept;
  // Checks that every position is exact in float64 (kLargestPosition). Reads the ids, which must be in
  // host memory. Call check() first.
  [[nodiscard]] Status check_values(const char* op, const char* name, std::int64_t batches,
                                    std::int64_t tokens, std::int64_t axes) const noexcept;
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
