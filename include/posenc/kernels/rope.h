// RoPE and xPos on tensors: rotates queries and keys in one pass, in place or into other tensors.
//
//   y[b, h, t] = T(n[b, t]) x[b, h, t]        T: rotation and magnitude on the rotated channels
//
// Tensors are [batch, heads, tokens, channels] in float32, bfloat16 or float16, with any strides and
// contiguous channels; arithmetic is float32. Queries and keys may have different numbers of heads
// (grouped-query attention); the number of frequency groups must divide both. The cos/sin row of a
// token is read once for all heads. A chunk of a long sequence (offsets) does not need tables of the
// whole length: use the on_demand cache policy.
#pragma once

#include "posenc/core/tensor_view.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/kernels/positions.h"

namespace posenc {

struct RopeCall {
  ConstTensorView q = {};
  ConstTensorView k = {};  // optional
  TensorView q_out = {};   // q for in-place, or a tensor that does not overlap it
  TensorView k_out = {};
  const RotaryCache* tables = nullptr;
  PositionsView positions = {};
  // The transpose: the gradient with respect to the input and, for unit magnitude, the inverse.
  bool transposed = false;
};

// All arguments are checked first: on error nothing is written, and the message names the argument.
Status rope(const RopeCall& call) noexcept;

// The gradient with respect to the frequencies, for the learnable schedule:
//   dinv_freq[g, p] = SUM over tokens and heads of group g of (+-n) (y1 dy2 - y2 dy1)
// from the inputs of rope and the gradients of its outputs. dinv_freq has groups x pairs entries and is
// overwritten. Sums have a fixed order: bitwise identical for any number of threads.
struct RopeFrequencyGradientCall {
  ConstTensorView q = {};
  ConstTensorView dq_out = {};
  ConstTensorView k = {};  // optional
  ConstTensorView dk_out = {};
  const RotaryCache* tables = nullptr;
  PositionsView positions = {};
  std::span<double> dinv_freq = {};
};
Status rope_frequency_gradient(const RopeFrequencyGradientCall& call) noexcept;

}  // namespace posenc

// SPDX-License-Identifier: MIT
