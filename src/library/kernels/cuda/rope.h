// RoPE and xPos on tensors in device memory: posenc/kernels/rope.h on a stream.
//
// All pointers are device pointers, including those of positions. cos/sin tables are computed on the
// device by the reference's formula in float64 and stored as float32; the caller tells which
// positions they hold.
#pragma once

#include <vector>

#include "kernels/cuda/launch.h"
#include "posenc/core/tensor_view.h"
#include "posenc/encodings/rotary.h"
#include "posenc/kernels/positions.h"

namespace posenc::cuda {

// Rows of positions first .. first + rows - 1, each rotary_row_floats() long: the cosines of groups x
// pairs, then the sines, magnitude included.
struct RotaryTables {
  const float* query = nullptr;
  const float* key = nullptr;  // the same rows, unless xPos tells keys from queries
  std::int64_t first = 0;
  std::int64_t rows = 0;
};
std::int64_t rotary_row_floats(const Rotary& rotary);

// What filling a table reads: frequencies [groups][pairs], then for xPos log zeta [pairs]. To be copied
// to the device; trained frequencies may be written there instead.
std::vector<double> rotary_constants(const Rotary& rotary);

struct RotaryTableFill {
  const Rotary* rotary = nullptr;
  Role role = Role::kQuery;
  const double* constants = nullptr;  // device
  std::int64_t first = 0;
  std::int64_t rows = 0;
  float* table = nullptr;  // device, rows * rotary_row_floats()
};
Status fill_rotary_table(const RotaryTableFill& fill, Stream stream) noexcept;

struct RopeCall {
  ConstTensorView q;
  ConstTensorView k;  // optional
  TensorView q_out;   // q itself, or a tensor that does not overlap it
  TensorView k_out;
  const Rotary* rotary = nullptr;
  RotaryTables tables;
  PositionsView positions;
  bool transposed = false;
  // Set to 1 where a token's position is not in the tables; such a token is not written. A caller that
  // has not checked its positions must give it.
  int* out_of_range = nullptr;
  int head_splits = 0;  // blocks that share a token's heads; 0: as many as fill the device
};
Status rope(const RopeCall& call, Stream stream) noexcept;

// dinv_freq [groups x pairs] in float64 on the device. Sums run in a fixed order: the same bits in every
// run. `workspace` holds frequency_gradient_bytes().
struct RopeFrequencyGradientCall {
  ConstTensorView q;
  ConstTensorView dq_out;
  ConstTensorView k;  // optional
  ConstTensorView dk_out;
  const Rotary* rotary = nullptr;
  RotaryTables tables;
  PositionsView positions;
  void* workspace = nullptr;
  double* dinv_freq = nullptr;
};
std::size_t frequency_gradient_bytes(const RopeFrequencyGradientCall& call);
Status rope_frequency_gradient(const RopeFrequencyGradientCall& call, Stream stream) noexcept;

}  // namespace posenc::cuda
