// The SIMD part of RoPE: rows of channels turned by rows of cos and sin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "posenc/core/tensor_view.h"

namespace posenc::cpu {

// How a row is turned. Channels before `offset` and from offset + 2 * pairs on pass unchanged.
struct RopeRowPlan {
  DType dtype;
  bool interleaved;
  std::size_t pairs;
  std::size_t offset;
  std::size_t channels;
  float sign = 1.0f;  // -1 turns the other way
};

// One token's angles for one group of heads. Half layout: `pairs` cosines and sines. Interleaved:
// expanded to channels, cos doubled and sin with alternating sign, so that one multiply-add on
// swapped neighbours turns a vector of pairs.
struct RopeAngles {
  const float* cos;
  const float* sin;
};

// Expands a row of cos and sin into what turn_rows wants. Rows of the half layout are that already.
void expand_angles(const RopeRowPlan& plan, const float* cos, const float* sin, float* cos_out,
                   float* sin_out) noexcept;
inline std::size_t expanded_size(const RopeRowPlan& plan) noexcept {
  return plan.interleaved ? 2 * plan.pairs : plan.pairs;
}

// Turns `count` rows that lie `in_stride` (`out_stride`) bytes apart; row r takes its angles at
// cos + r * angle_stride. in == out is allowed, a partial overlap is not.
void turn_rows(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
               std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
               std::size_t angle_stride) noexcept;

// Adds position * (y1 dy2 - y2 dy1) of one row to a gradient of `pairs` frequencies, where y is the
// row x after the turn by these (expanded) angles.
void add_frequency_gradient(const RopeRowPlan& plan, const std::byte* x, const std::byte* dy,
                            RopeAngles angles, float* scratch, float position,
                            float* gradient) noexcept;

}  // namespace posenc::cpu
