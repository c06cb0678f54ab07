// Site 2 on the device: tables of cos and sin for the positions of a call, and the rotation of tensors by them.
#pragma once

#include "jax/cuda/device.h"
#include "kernels/cuda/rope.h"
#include "posenc/encodings/encoding.h"

namespace posenc::jax {

// Positions of one side of a call, and their bounds.
struct Side {
  PositionsView ids = {};  // on the device; not given: 0, 1, 2, ...
  std::int64_t least = 0;
  std::int64_t most = 0;
};
Side side_of(const Positions& positions, std::int64_t batch, std::int64_t tokens);

class DeviceRotation {
 public:
  // Tables for all positions from `least` to `most`.
  DeviceRotation(Device& device, const Rotary& rotary, std::int64_t least, std::int64_t most);

  // Queries and keys at the same positions, or one tensor by the angles of queries or of keys. An output may be its input.
  void rotate(const TensorView& q, const TensorView& k, const TensorView& q_out,
              const TensorView& k_out, const PositionsView& ids, bool transposed) const;
  void rotate(Role role, const TensorView& x, const TensorView& out, const PositionsView& ids,
              bool transposed) const;
  // dalpha of trained frequencies from inputs and gradients at outputs; k may be empty.
  [[nodiscard]] std::vector<double> alpha_gradient(const TensorView& q, const TensorView& dq,
                                                   const TensorView& k, const TensorView& dk,
                                                   const PositionsView& ids) const;

 private:
  const float* filled(Role role, const double* constants) const;

  Device& device_;
  Rotary rotary_;
  cuda::RotaryTables tables_;
};

}  // namespace posenc::jax
