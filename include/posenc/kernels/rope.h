// RoPE and xPos on tensors: queries and keys in one pass, in place or not.
//
//   y[b, h, t] = T(n[b, t]) x[b, h, t]        T the Rotary's turn and magnitude on its window
//
// Tensors are [batch, heads, tokens, channels] in any strides with contiguous channels, float32,
// bfloat16 or float16; arithmetic is float32. Queries and keys may have different numbers of heads
// (grouped queries); the number of frequency groups divides both. The cos/sin row of a token is read
// once for all heads of both. Chunks of a long sequence (offsets) need no table of its whole length:
// tables may be computed on demand.
#pragma once

#include "posenc/core/tensor_view.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/kernels/positions.h"

namespace posenc {

struct RopeCall {
  ConstTensorView q;
  ConstTensorView k;  // optional
  TensorView q_out;   // q itself, or a tensor that does not overlap it
  TensorView k_out;
  const RotaryCache* tables = nullptr;
  PositionsView positions;
  // The transpose: the gradient with respect to the input and, for unit magnitude, the inverse.
  bool transposed = false;
};

// Checks everything first: on any error nothing is written, and the message names the argument.
Status rope(const RopeCall& call) noexcept;

// The gradient with respect to the frequencies, for the learnable schedule:
//   dinv_freq[g, p] = SUM over tokens and heads of group g of (+-n) (y1 dy2 - y2 dy1)
// from inputs and the gradients at the outputs of rope. dinv_freq has groups x pairs entries and is
// overwritten. Sums run in a fixed order: the same bits for any thread count.
struct RopeFrequencyGradientCall {
  ConstTensorView q;
  ConstTensorView dq_out;
  ConstTensorView k;  // optional
  ConstTensorView dk_out;
  const RotaryCache* tables = nullptr;
  PositionsView positions;
  std::span<double> dinv_freq;
};
Status rope_frequency_gradient(const RopeFrequencyGradientCall& call) noexcept;

}  // namespace posenc
