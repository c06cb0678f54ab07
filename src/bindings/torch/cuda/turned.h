// Queries and keys through site 2 in a pass of its own, and their gradients back.
#pragma once

#include "torch/cuda/cuda_call.h"
#include "torch/cuda/rotation.h"

namespace posenc::ops {

class Turned {
 public:
  explicit Turned(const CudaCall& call);

  [[nodiscard]] double softmax_factor() const;
  [[nodiscard]] bool any() const { return !rotations_.empty(); }

  // From gradients at the turned rows to those at the plain ones, in place; sets the gradients of trained
  // frequencies where `gradients` is given.
  void backward(const at::Tensor& dq, const at::Tensor& dk,
                std::vector<std::vector<at::Tensor>>* gradients) const;

 private:
  [[nodiscard]] bool together() const;
  void turn(std::size_t r, const CudaRotation::Sides& sides, bool transposed) const;
  void forward(std::size_t r);
  [[nodiscard]] at::Tensor frequency_gradient(std::size_t r, const at::Tensor& dq,
                                              const at::Tensor& dk) const;

  const CudaCall& call_;
  SidePositions of_q_;
  SidePositions of_k_;
  std::vector<std::vector<at::Tensor>> parameters_;
  std::vector<CudaRotation> rotations_;
  std::vector<at::Tensor> q_inputs_;  // of each rotation
  std::vector<at::Tensor> k_inputs_;

 public:
  at::Tensor q;
  at::Tensor k;
};

}  // namespace posenc::ops
