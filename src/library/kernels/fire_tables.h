// FIRE's network as a piecewise linear function per head, and its inputs per distance and per row.
//
// f_h(u) = w2[h] . relu(w1 u + b1) + b2[h] is linear between the points where a hidden unit switches, so
// a bias costs one multiply-add once the segment is known, and the gradients of all weights follow from
// two sums per segment (of db u and of db) for any width.
#pragma once

#include <vector>

#include "core/aligned.h"
#include "kernels/cpu/attention_simd.h"
#include "kernels/toeplitz_tables.h"
#include "posenc/encodings/fire.h"

namespace posenc {

class FireTables {
 public:
  FireTables() = default;
  FireTables(const Fire& config, const Parameters& parameters, std::int64_t heads,
             const DistanceRange& range);

  [[nodiscard]] cpu::FireProblem problem(std::int64_t head) const;
  [[nodiscard]] std::size_t segments() const { return segments_; }

  // Adds a head's sums per segment to the gradients of the network.
  void add_network_gradient(const Parameters& parameters, std::int64_t head, const double* dslopes,
                            const double* dintercepts, Parameters& gradient) const;
  // Adds what the sums of one row (place n) ask of c and of the threshold.
  void add_row_gradient(const Fire& config, const Parameters& parameters, std::int64_t place,
                        double dpsi, double dscale, Parameters& gradient) const;

 private:
  [[nodiscard]] bool active(std::size_t segment, std::size_t unit) const {
    return active_[segment * width_ + unit];
  }

  std::size_t width_ = 0;
  std::size_t segments_ = 0;
  std::int64_t zero_ = 0;          // index of distance 0
  std::int64_t lowest_place_ = 0;  // place of the first row scale
  std::int64_t key_place_ = 0;     // of the first key of a slice
  AlignedFloats psi_;
  AlignedFloats dpsi_;
  AlignedFloats row_scale_;
  AlignedFloats bounds_;
  AlignedFloats slopes_;  // [heads][segments]
  AlignedFloats intercepts_;
  std::vector<bool> active_;  // [segments][width]
};

}  // namespace posenc
