// Rotation by angles from an input (rope with angles=input or input_position) on the GPU.
#pragma once

#include "kernels/cuda/rope_angles.h"
#include "torch/cuda/cuda_call.h"
#include "torch/cuda/rotation.h"

namespace posenc::ops {

class InputRotation {
 public:
  // `call` outlives this.
  InputRotation(const CudaCall& call, std::size_t rotation);

  // Queries and, where they are defined, keys.
  void rotate(const CudaRotation::Sides& sides) const;
  // From gradients at the rotated rows to those at `q` and `k`, in place; keys are left out where dk is undefined.
  // Returns the gradient of the input.
  [[nodiscard]] at::Tensor backward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& dq,
                                    const at::Tensor& dk) const;

 private:
  [[nodiscard]] cuda::GivenAngles angles(Role role) const;
  void rotate_one(Role role, const at::Tensor& x, const at::Tensor& out) const;
  [[nodiscard]] cuda::RopeAnglesGradientCall gradient_call(Role role, const at::Tensor& x,
                                                           const at::Tensor& dx,
                                                           const at::Tensor& dangles) const;
  // The gradient of steps from that of their sums.
  [[nodiscard]] at::Tensor gradient_of_steps(const at::Tensor& dsums) const;

  const CudaCall& call_;
  const Rope& rope_;
  const Rotary& rotary_;
  at::Tensor input_;        // as the caller gave it
  at::Tensor angles_;       // [B, Hkv, Tk, pairs or 1]; float64 where they are sums of steps
  at::Tensor frequencies_;  // float64 [Hkv, pairs], where the input has positions
  at::Tensor own_key_;      // int64 [Tq]; undefined where query t is token t
};

}  // namespace posenc::ops
