// Site 2 on the GPU: tables of cos and sin in device memory, and the rotation of tensors by them.
#pragma once

#include "kernels/cuda/rope.h"
#include "torch/composed/tokens.h"

namespace posenc::ops {

// One rotation of a spec with its tables: the kept ones, or for trained frequencies (alpha is then
// defined) ones of this call.
class CudaRotation {
 public:
  CudaRotation(const Prepared& prepared, std::size_t rotation, const at::Tensor& alpha,
               const PositionRange& range, const at::Device& device);

  // Queries and keys in one launch; keys may be undefined. Rows have contiguous channels; an output may
  // be its input.
  struct Sides {
    at::Tensor q;
    at::Tensor k;
    at::Tensor q_out;
    at::Tensor k_out;
  };
  void turn(const Sides& sides, const at::Tensor& ids, bool transposed) const;
  // One tensor, by the angles of queries or of keys.
  void turn_one(Role role, const at::Tensor& x, const at::Tensor& out, const at::Tensor& ids,
                bool transposed) const;
  // d loss / d frequencies, float64 [groups, pairs], from inputs and gradients at outputs.
  [[nodiscard]] at::Tensor frequency_gradient(const at::Tensor& q, const at::Tensor& k,
                                              const at::Tensor& dq, const at::Tensor& dk,
                                              const at::Tensor& ids) const;
  // dalpha[p] = SUM over groups of inv_freq * dinv_freq.
  [[nodiscard]] at::Tensor alpha_gradient(const at::Tensor& dinv_freq) const;

  [[nodiscard]] const Rotary& rotary() const { return rotary_; }

 private:
  [[nodiscard]] cuda::RotaryTables tables(Role role) const;
  [[nodiscard]] at::Tensor filled(Role role, const PositionRange& range) const;

  Rotary rotary_;
  at::Device device_;
  at::Tensor constants_;  // float64 on the device, as rotary_constants() orders them
  DeviceTable table_;
};

}  // namespace posenc::ops
