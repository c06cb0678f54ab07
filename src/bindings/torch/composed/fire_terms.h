// FIRE as the fused kernels read it: a piecewise linear function of psi(distance) * row scale, made from
// the parameters where they are, and back from the kernels' sums to the gradients of the parameters. The
// formulas are those of kernels/fire_tables.h, as operations on tensors of any device.
#pragma once

#include "torch/composed/biases.h"

namespace posenc::ops {

// Distances that some query sees, and places of queries from the lowest on.
struct FireRange {
  BiasTable distances;
  std::int64_t lowest_place = 0;
  std::int64_t places = 0;
};

class FireTerms {
 public:
  // `parameters` are c, threshold_scale, w1, b1, w2, b2.
  FireTerms(const Fire& config, const std::vector<at::Tensor>& parameters, const FireRange& range);

  // Segments between the points where a hidden unit switches: one more than there are units, some of
  // them empty where units never switch or switch together.
  [[nodiscard]] std::int64_t segments() const { return active_.size(0); }

  // Gradients of the parameters, float64, from the sums of db u and of db per segment [heads, segments, 2],
  // and of db slope dpsi and db slope psi per row [B, H, Tq, 2] at the queries' places [Tq]. Sums run in a
  // fixed order.
  [[nodiscard]] std::vector<at::Tensor> gradients(const at::Tensor& dsegments,
                                                  const at::Tensor& drows,
                                                  const at::Tensor& q_places) const;

  // Float32, as kernels/cuda/attention.h names them.
  at::Tensor bounds;      // [segments + 1]
  at::Tensor slopes;      // [heads, segments]
  at::Tensor intercepts;  // [heads, segments]
  at::Tensor psi;         // [distances.span]
  at::Tensor dpsi;        // [distances.span]
  at::Tensor row_scale;   // [places]

 private:
  // What rows at places are measured against, and how that moves with |c| and L.
  struct Rows {
    at::Tensor scale;
    at::Tensor dc;
    at::Tensor dthreshold;
  };
  [[nodiscard]] Rows rows_at(const at::Tensor& places) const;

  double init_threshold_;
  std::vector<at::Tensor> parameters_;  // float64
  at::Tensor c_;                        // |c|
  at::Tensor threshold_;                // L
  at::Tensor active_;                   // [segments, width], 1 where the unit is active
};

}  // namespace posenc::ops
