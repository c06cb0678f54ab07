// An attention call on the device: its tensors checked, its tokens, and which path it takes.
#pragma once

#include "torch/composed/composed.h"
#include "torch/composed/paths.h"

namespace posenc::ops {

class CudaCall {
 public:
  CudaCall(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
           const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
           const at::Tensor& lengths = {});  // as TokenOptions has them
  CudaCall(const CudaCall&) = delete;
  CudaCall& operator=(const CudaCall&) = delete;

  [[nodiscard]] const ComposedCall& composed() const { return composed_; }
  [[nodiscard]] CudaProblem problem() const;
  // Whether the fused kernels should be asked, and those of the backward.
  [[nodiscard]] bool fused() const;
  [[nodiscard]] bool backward_fused() const;
  [[nodiscard]] const Terms& terms() const { return composed_.prepared->plan.terms(); }
  [[nodiscard]] const Tokens& tokens() const { return tokens_; }
  [[nodiscard]] const at::Device& device() const { return device_; }

 private:
  void check() const;

  Tokens tokens_;
  at::Device device_;
  ComposedCall composed_;
};

// Whether rows start at multiples of 16 bytes, as the kernels read them; and the tensor itself or a copy with such rows.
bool is_aligned(const at::Tensor& x);
at::Tensor aligned(const at::Tensor& x);
// With zeros behind its channels, so that it has `width`; the tensor itself where it has them.
at::Tensor to_width(const at::Tensor& x, std::int64_t width);

}  // namespace posenc::ops
