// The SIMD part of RoPE: rotates rows of channels by rows of cos and sin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "posenc/core/tensor_view.h"

namespace posenc::cpu {

// How a row is rotated. Channels before `offset` and from offset + 2 * pairs on do not change.
struct RopeRowPlan {
  DType dtype;
  bool interleaved;
  std::size_t pairs;
  std::size_t offset;
  std::size_t channels;
  bool back = false;  // rotates by the negative angle
  // For bfloat16: how many pairs are rotated as 32-bit words, two channels to a word. Their angles lie in
  // the order of the words' halves (expand_angles).
  std::size_t word_pairs = 0;
};

// How many of `pairs` this machine rotates as words: whole vectors of them.
std::size_t word_pairs(bool interleaved, std::size_t pairs) noexcept;

// One token's angles for one group of heads. Half layout: `pairs` cosines and sines. Interleaved:
// expanded to channels, cos doubled and sin with alternating sign, so that one multiply-add on
// swapped neighbours rotates a vector of pairs.
//
// The first word_pairs are ordered for words instead. Half: those of even pairs, then those of odd ones.
// Interleaved, where a word holds just one pair: one each.
struct RopeAngles {
  const float* cos;
  const float* sin;
};

// Expands a row of cos and sin into what turn_rows wants. Rows of the half layout without words are
// that already.
void expand_angles(const RopeRowPlan& plan, const float* cos, const float* sin, float* cos_out,
                   float* sin_out) noexcept;
inline std::size_t expanded_size(const RopeRowPlan& plan) noexcept {
  return plan.interleaved ? 2 * plan.pairs - plan.word_pairs : plan.pairs;
}

// Turns `count` rows that lie `in_stride` (`out_stride`) bytes apart; row r takes its angles at
// cos + r * angle_stride. in == out is allowed, a partial overlap is not. `next`, where given, is the
// first of as many rows in the same stride that will be read after these: they are fetched meanwhile.
void turn_rows(const RopeRowPlan& plan, const std::byte* in, std::ptrdiff_t in_stride,
               std::byte* out, std::ptrdiff_t out_stride, std::size_t count, RopeAngles angles,
               std::size_t angle_stride, const std::byte* next = nullptr) noexcept;

// Adds position * (y1 dy2 - y2 dy1) of one row to a gradient of `pairs` frequencies, where y is the
// row x after the rotation by these (expanded) angles. The plan must be one without words.
void add_frequency_gradient(const RopeRowPlan& plan, const std::byte* x, const std::byte* dy,
                            RopeAngles angles, float* scratch, float position,
                            float* gradient) noexcept;

}  // namespace posenc::cpu
