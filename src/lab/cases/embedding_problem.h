// Site 1 as a problem: `queries` are the tokens, `head_dim` is the width of an embedding.
#pragma once

#include "cases/problem.h"
#include "posenc/kernels/embedding.h"

namespace posenc::cases {

class EmbeddingProblem : public Problem {
 public:
  explicit EmbeddingProblem(const Case& c);

  void forward() override;
  void backward() override;
  [[nodiscard]] std::vector<Result> results(bool with_backward) const override;
  [[nodiscard]] std::vector<Result> expected(bool with_backward) const override;
  std::vector<Variable> variables() override;
  double loss() override;

  EmbeddingCall call();

  Case c;
  Spec spec;
  std::vector<Parameters> parameters;
  std::vector<Parameters> dparameters;
  Tensor x, y, grad;
  std::vector<std::int64_t> ids;

 private:
  [[nodiscard]] PositionsView positions() const;

  std::vector<double> exact_x_;
  std::vector<Parameters> exact_parameters_;
};

}  // namespace posenc::cases
