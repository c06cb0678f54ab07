// Queries and keys of attention after site 2, and the way back of their gradients.
#pragma once

#include "jax/arguments.h"
#include "jax/cuda/rotation.h"
#include "kernels/attention_call.h"

namespace posenc::jax {

class Rotated {
 public:
  // `segments`: of packed sequences; empty without them.
  Rotated(Device& device, const AttentionArguments& arguments, bool keys_are_turned,
          const std::vector<Segment>& segments);

  [[nodiscard]] bool any() const { return !rotations_.empty(); }
  [[nodiscard]] double softmax_factor() const;
  // From gradients of the rotated rows to those of the plain ones, in place. Sets the gradients of trained frequencies
  // where `gradients` is given.
  void backward(const TensorView& dq, const TensorView& dk,
                std::vector<Parameters>* gradients) const;

  TensorView q, k;

 private:
  void set_sides(const std::vector<Segment>& segments);
  void rotate(const DeviceRotation& rotation, const TensorView& q_in, const TensorView& k_in,
              const TensorView& q_out, const TensorView& k_out, bool transposed) const;
  // Whether queries and keys have the same positions, so that one launch rotates both.
  [[nodiscard]] bool together() const;

  Device& device_;
  const AttentionArguments& arguments_;
  bool keys_are_turned_;
  Side of_q_, of_k_;
  std::vector<DeviceRotation> rotations_;
  std::vector<TensorView> q_inputs_, k_inputs_;  // of each rotation
};

}  // namespace posenc::jax
