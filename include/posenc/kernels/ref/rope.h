// The reference of RoPE (and xPos) as an operation on a tensor: scalar float64.
//
//   y[b, h, t] = T(n[b, t]) x[b, h, t]        x, y [B, H, T, D]; n one coordinate per axis
//
// where T is the rotation and magnitude of a Rotary on its rotated channels. Call it once for queries
// and once for keys: with xPos, the role determines the direction of the scaling.
//
// Backward, for a pair (x1, x2) -> (y1, y2) rotated by angle = n inv_freq (-n inv_freq if inverse):
//
//   dx        = T(n)^T dy                     for unit magnitude, the inverse rotation
//   dangle    = y1 dy2 - y2 dy1
//   dinv_freq = SUM over tokens and the heads of a group of (+-n) dangle
//   dalpha    = SUM over groups of inv_freq dinv_freq            learnable schedule
#pragma once

#include "posenc/encodings/rotary.h"

namespace posenc::ref {

struct RopeShape {
  std::int64_t batch = 1;     // B
  std::int64_t heads = 1;     // H; the groups of the Rotary must divide it
  std::int64_t tokens = 0;    // T
  std::int64_t head_dim = 1;  // D
};

struct RopeGradients {
  std::vector<double> x;         // [B, H, T, D]
  std::vector<double> inv_freq;  // [groups, pairs]
};

// `positions` is [B, T, axes], or [B, T] to use one coordinate for every axis. See tokens.h for
// positions from offsets or cumulative lengths.
std::vector<double> rope(const Rotary& rotary, Role role, const RopeShape& shape,
                         std::span<const double> x, std::span<const std::int64_t> positions);

RopeGradients rope_backward(const Rotary& rotary, Role role, const RopeShape& shape,
                            std::span<const double> x, std::span<const std::int64_t> positions,
                            std::span<const double> grad_out);

// The gradient of `alpha` (one per pair) from the gradient of the frequencies.
std::vector<double> alpha_gradient(const Rotary& rotary, std::span<const double> dinv_freq);

}  // namespace posenc::ref

// SPDX-License-Identifier: MIT
