// Applies site 2 to queries and keys in a separate pass, forward and backward.
#pragma once

#include <map>
#include <variant>

#include "torch/cuda/cuda_call.h"
#include "torch/cuda/input_rotation.h"

namespace posenc::ops {

class Turned {
 public:
  explicit Turned(const CudaCall& call);

  [[nodiscard]] double softmax_factor() const;
  // Whether queries are not the plain ones.
  [[nodiscard]] bool any() const { return !rotations_.empty() || factors_.defined(); }

  // The gradient of an input that gives angles, after backward(); undefined for other inputs.
  [[nodiscard]] at::Tensor input_gradient(std::size_t input) const;

  // From gradients of the rotated rows to those of the plain ones, in place; sets the gradients of trained
  // frequencies and temperatures where `gradients` is given.
  void backward(const at::Tensor& dq, const at::Tensor& dk,
                std::vector<std::vector<at::Tensor>>* gradients) const;

 private:
  void multiply_queries();
  void factors_backward(const at::Tensor& dq,
                        std::vector<std::vector<at::Tensor>>* gradients) const;
  [[nodiscard]] bool together() const;
  void turn(std::size_t r, const CudaRotation::Sides& sides, bool transposed) const;
  void forward(std::size_t r);
  [[nodiscard]] at::Tensor frequency_gradient(std::size_t r, const at::Tensor& dq,
                                              const at::Tensor& dk) const;

  const CudaCall& call_;
  SidePositions of_q_;
  SidePositions of_k_;
  std::vector<std::vector<at::Tensor>> parameters_;
  std::vector<std::variant<CudaRotation, InputRotation>> rotations_;
  std::vector<at::Tensor> q_inputs_;  // of each rotation
  std::vector<at::Tensor> k_inputs_;
  at::Tensor
      factors_;  // of temperatures, float32 [B or 1, H or 1, Tq, 1]; undefined where there are none
  at::Tensor before_factors_;
  mutable std::map<std::size_t, at::Tensor> input_gradients_;

 public:
  at::Tensor q;
  at::Tensor k;
};

}  // namespace posenc::ops
