// A call of attention as arguments of the CUDA kernels.
#pragma once

#include "jax/cuda/rotated.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/token_sums.h"

namespace posenc::jax {

class FusedCall {
 public:
  // Throws where no kernel serves the call, with the reason.
  FusedCall(Device& on, const AttentionArguments& of, const TensorView& out, float* lse,
            bool backward);

  void give_workspace(std::size_t bytes);

  [[nodiscard]] const Terms& terms() const { return arguments.prepared->plan.terms(); }
  [[nodiscard]] const std::vector<Parameters>& values() const {
    return arguments.parameters.values;
  }
  // Distances that a query sees, from -before on, and places that a query has.
  struct Range {
    std::int64_t before = 0;
    std::int64_t span = 0;
    std::int64_t lowest_place = 0;
    std::int64_t places = 0;
  };

  Device& device;
  const AttentionArguments& arguments;
  AttentionCall call;
  std::vector<Segment> segments;
  Range range;
  cuda::AttentionParams p;
  cuda::TokenScan token_scan;  // where the spec has a term per token

 private:
  void require_kernel(bool backward) const;
  float* floats(std::size_t encoding, std::size_t index);
  void fill_shapes();
  void fill_segments();
  void fill_range();
  void fill_table();
  void fill_fire();
  void fill_cope();
  void fill_tokens();
  void fill_relative();
  void fill_sinks();

 public:
  Rotated rotated;
};

cuda::Tensor4 tensor4(const TensorView& x);

}  // namespace posenc::jax
