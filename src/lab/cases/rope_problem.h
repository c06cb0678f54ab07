// RoPE (or xPos) on queries and keys as a problem. `queries` of the case are the tokens; the spec is one
// encoding of site 2. The backward is the transposed call, and the frequencies' gradient if they learn.
#pragma once

#include "cases/problem.h"
#include "posenc/kernels/reference.h"
#include "posenc/kernels/rope.h"

namespace posenc::cases {

class RopeProblem : public Problem {
 public:
  explicit RopeProblem(const Case& c);

  void forward() override;
  void backward() override;
  [[nodiscard]] std::vector<Result> results(bool with_backward) const override;
  [[nodiscard]] std::vector<Result> expected(bool with_backward) const override;
  std::vector<Variable> variables() override;
  double loss() override;

  RopeCall call();
  [[nodiscard]] PositionsView positions() const;

  Case c;
  Spec spec;
  ModelShape shape;
  std::vector<double> alpha;  // of the learnable schedule
  RotaryCache tables;
  Tensor q, k, q_out, k_out, grad_q, grad_k, dq, dk;
  std::vector<double> dinv_freq;
  std::vector<std::int64_t> ids;   // [B, T, axes], whatever the form
  std::vector<std::int64_t> form;  // offsets or cumulative lengths
  std::vector<std::int32_t> narrow;

 private:
  struct Exact {
    std::vector<double> q, k, alpha;
  };
  [[nodiscard]] bool learns() const { return !alpha.empty(); }
  [[nodiscard]] Rotary rotary(const std::vector<double>& values) const;

  Exact exact_;
};

}  // namespace posenc::cases
