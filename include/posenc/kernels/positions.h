// Where tokens stand: three ways to say it, none of which copies anything.
#pragma once

#include <cstdint>
#include <span>

#include "posenc/core/status.h"

namespace posenc {

// At most one of ids, offsets and cumulative is given; with none, token t has position t.
struct PositionsView {
  // Ids of 32 or 64 bits, [batch, tokens, axes], with strides in elements (0 shares them along a
  // dimension: one row for all sequences, or one coordinate for all axes).
  const void* ids = nullptr;
  bool ids_are_64_bit = true;
  std::int64_t batch_stride = 0;
  std::int64_t token_stride = 1;
  std::int64_t axis_stride = 0;

  // Sequence b starts at offsets[b]: a decode step, or a chunk of a long sequence.
  std::span<const std::int64_t> offsets;

  // Packed sequences in one row of tokens: {0, n_1, n_1 + n_2, .., tokens}; positions restart in
  // each.
  std::span<const std::int64_t> cumulative;

  [[nodiscard]] bool given() const noexcept {
    return ids != nullptr || !offsets.empty() || !cumulative.empty();
  }
  // Position of a token along an axis. Must have passed check().
  [[nodiscard]] std::int64_t at(std::int64_t batch, std::int64_t token,
                                std::int64_t axis) const noexcept;
  // Bounds of all positions of a tensor with at least one token. Must have passed check().
  struct Range {
    std::int64_t least;
    std::int64_t most;
  };
  [[nodiscard]] Range range(std::int64_t batches, std::int64_t tokens,
                            std::int64_t axes) const noexcept;
  // Whether the form fits the tensor; `name` signs the message.
  [[nodiscard]] Status check(const char* name, std::int64_t batches,
                             std::int64_t tokens) const noexcept;
  // Whether every position is exact in float64 (kLargestPosition). Reads the ids, which must be on the
  // host; must have passed check().
  [[nodiscard]] Status check_values(const char* op, const char* name, std::int64_t batches,
                                    std::int64_t tokens, std::int64_t axes) const noexcept;
};

}  // namespace posenc
