// The gradients of FIRE's parameters from the sums that fused kernels compute, as tensor operations for any device.
// The formulas are those of posenc/encodings/fire.h.
#pragma once

#include "torch/composed/biases.h"

namespace posenc::ops {

// Distances that some query sees, and places of queries from the lowest on.
struct FireRange {
  BiasTable distances;
  std::int64_t lowest_place = 0;
  std::int64_t places = 0;
};

// Float64, from the sums of db u and of db per segment [heads, segments, 2], and of db slope dpsi and db slope psi per
// row [B, H, Tq, 2] at the queries' places [Tq]. `parameters` are c, threshold_scale, w1, b1, w2, b2; the segments are
// width + 1, those of units that never switch last (kernels/cuda/fire_tables.h). Sums run in a fixed order.
std::vector<at::Tensor> fire_gradients(const Fire& config,
                                       const std::vector<at::Tensor>& parameters,
                                       const at::Tensor& dsegments, const at::Tensor& drows,
                                       const at::Tensor& q_places);

}  // namespace posenc::ops
