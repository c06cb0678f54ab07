// The backward of attention with the CUDA kernels: their outputs, and the gradients computed from them.
#pragma once

#include "jax/cuda/fused_call.h"

namespace posenc::jax {

class FusedGradients {
 public:
  struct Results {
    TensorView dq, dk, dv;
    std::vector<TensorView> dinputs;
    std::vector<std::span<float>> parameters;  // of those that were given, on the device
  };
  FusedGradients(FusedCall& fused, const TensorView& grad_out, const Results& results);

  [[nodiscard]] Status run();

 private:
  [[nodiscard]] const Terms& terms() const { return fused_.terms(); }
  [[nodiscard]] bool wants_parameters() const { return !to_.parameters.empty(); }
  void fill_rows();
  void fill_tables();
  void finish();
  void add(const TensorView& from, const TensorView& to) const;
  // Gradients of parameters, summed on the host.
  void add_biases(std::vector<Parameters>& gradients) const;
  void add_fire(std::vector<Parameters>& gradients) const;
  void add_sinks(std::vector<Parameters>& gradients) const;
  void copy_table(const float* table, std::size_t encoding,
                  std::vector<Parameters>& gradients) const;

  FusedCall& fused_;
  Device& device_;
  Results to_;
  cuda::AttentionBackwardParams b_;
  TensorView dplain_, drelative_, dgate_;
};

}  // namespace posenc::jax
