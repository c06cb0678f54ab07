// RoPE with angles from an input (angles=input or input_position, posenc/encodings/rope.h): forward and backward, each in
// one pass over the rows.
//
//   (x, y) -> a (x cos - y sin, x sin + y cos)                 a the attention factor
//   dangle = SUM over rows of x dy' - y dx'                    (dx', dy') the gradient rotated back
//
// All pointers are device pointers. Results are bitwise reproducible.
#pragma once

#include "kernels/cuda/launch.h"
#include "posenc/core/tensor_view.h"
#include "posenc/encodings/rotary.h"

namespace posenc::cuda {

// Angles of tokens, contiguous [B, heads, tokens, pairs]; head h of H rows reads head h * heads / H. With `frequencies`
// they are positions, [B, heads, tokens, 1], and an angle is their product in float64. Angles in float64 are reduced
// in float64; those in float32 are taken as they are, at any size.
struct GivenAngles {
  const void* data = nullptr;
  bool is_float64 = false;
  std::int64_t heads = 0;
  std::int64_t tokens = 0;
  const double* frequencies = nullptr;  // [heads, pairs]
  // The token whose angles a row has, by the row's own token, or -1: no rotation; each but -1 at most once. Null: its
  // own.
  const std::int64_t* token_of_row = nullptr;
};

struct RopeAnglesCall {
  ConstTensorView q;
  ConstTensorView k;  // optional, with the tokens of q
  TensorView q_out;   // q itself, or a tensor that does not overlap it
  TensorView k_out;
  const Rotary* rotary = nullptr;  // layout, channels, direction and attention factor
  GivenAngles angles;
};
Status rope_by_angles(const RopeAnglesCall& call, Stream stream) noexcept;

// From gradients at the outputs to those at the inputs, which may be the same tensors, and at the angles.
struct RopeAnglesGradientCall {
  ConstTensorView q;  // before the rotation
  ConstTensorView k;  // optional
  ConstTensorView dq_out;
  ConstTensorView dk_out;
  TensorView dq;
  TensorView dk;
  const Rotary* rotary = nullptr;
  GivenAngles angles;
  float* dangles = nullptr;  // shaped as the angles, or null: not wanted
  bool adds = false;         // to what `dangles` holds
};
Status rope_by_angles_backward(const RopeAnglesGradientCall& call, Stream stream) noexcept;

}  // namespace posenc::cuda
