// Positions of all tokens: user-given positions, or the places.
#pragma once

#include "kernels/ref/mask.h"
#include "posenc/encodings/schedule.h"

namespace posenc::ref {

class Positions {
 public:
  Positions(const std::string& scope, const AttentionShape& shape, const TokenPositions& given,
            const Mask& mask);

  // Coordinates of a token: one, or one per axis.
  [[nodiscard]] std::span<const std::int64_t> query(std::int64_t batch, std::int64_t index) const;
  [[nodiscard]] std::span<const std::int64_t> key(std::int64_t batch, std::int64_t index) const;

  // Coordinates of every token that has any: 1 where all positions are places.
  [[nodiscard]] std::int64_t axes() const { return axes_; }
  // The lengths for schedules: as given, or a sequence that ends at the largest position.
  [[nodiscard]] Lengths lengths(const Lengths& given) const;

 private:
  struct Side {
    std::int64_t tokens = 0;
    std::int64_t axes = 1;
    std::vector<std::int64_t> values;  // [B, tokens, axes]
  };

  Side queries_;
  Side keys_;
  std::int64_t axes_ = 1;
};

}  // namespace posenc::ref
