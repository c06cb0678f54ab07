// The backward with the CUDA kernels: their outputs, and the gradients computed from them.
#pragma once

#include "torch/cuda/fused_call.h"

namespace posenc::ops {

// Whether a launch happened; where the kernels do not serve a call after all (tables that do not fit
// into shared memory), it is composed. Other errors are thrown.
bool launched(const Status& status);

class FusedGradients {
 public:
  // `fused` holds the forward's results. Without `wants_parameters` the kernels sum no gradients of tables.
  FusedGradients(FusedCall& fused, const at::Tensor& grad_out, bool wants_parameters);
  FusedGradients(const FusedGradients&) = delete;
  FusedGradients& operator=(const FusedGradients&) = delete;

  // False where the kernels do not serve the call; nothing is written then.
  [[nodiscard]] bool launch();
  // From what the launch wrote to the gradients of the operator.
  [[nodiscard]] AttentionBackward finish();

 private:
  void fill_rows();
  void fill_tables();
  [[nodiscard]] std::vector<std::vector<at::Tensor>> table_gradients() const;
  [[nodiscard]] std::vector<at::Tensor> input_gradients() const;
  [[nodiscard]] at::Tensor token_gradient(const at::Tensor& input) const;
  [[nodiscard]] at::Tensor relative_gradient(const at::Tensor& input) const;
  [[nodiscard]] at::Tensor sink_gradient(const at::Tensor& logit) const;

  FusedCall& fused_;
  const ComposedCall& call_;
  at::Tensor grad_out_;
  bool wants_parameters_;
  cuda::AttentionBackwardParams b_;
  at::Tensor dq_, dk_, dv_, dplain_, dgate_, dtoken_queries_, dtoken_keys_;
  at::Tensor drelative_, drelative_u_;
  at::Tensor dtable_, dcope_, dfire_segments_, dfire_rows_;
};

}  // namespace posenc::ops
