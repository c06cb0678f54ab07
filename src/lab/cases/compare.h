// Compares results of kernels with the reference: one set of tolerances for tests and benchmarks.
#pragma once

#include "cases/problem.h"

namespace posenc::cases {

struct Comparison {
  double worst = 0.0;    // the largest |got - want| in units of what is allowed; fine up to 1
  std::string mismatch;  // empty where everything agrees

  [[nodiscard]] bool fine() const { return mismatch.empty(); }
};

// float32 values within 1e-5 of the largest; bfloat16 and float16 within the rounding of the output
// (gradients: of the stored output too, through which they are computed).
Comparison compare(DType dtype, const std::vector<Result>& got, const std::vector<Result>& want);

// Runs a case and compares it with the reference.
Comparison check(const Case& c, bool with_backward);

}  // namespace posenc::cases
