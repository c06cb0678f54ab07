// A case with its tensors: random inputs, poisoned outputs, the kernel's call and the reference's.
#pragma once

#include <functional>
#include <memory>

#include "cases/case.h"

namespace posenc::cases {

// How a result is judged: as stored values, float32 sums of a row, gradients of stored values, or
// gradients of parameters, which are sums over all rows.
enum class ResultKind { kValue, kRowSum, kGradient, kParameterGradient };

struct Result {
  std::string name;
  ResultKind kind;
  std::vector<double> values;
  double terms = 1.0;  // how large the terms of a parameter's sum are; they may cancel
};

// An input in float64 that the loss may be differentiated by; its gradient is the result "d" + name.
struct Variable {
  std::string name;
  std::vector<double>* values;
};

class Problem {
 public:
  virtual ~Problem() = default;

  // The kernels, on the tensors of the case. Throw Error where they refuse.
  virtual void forward() = 0;
  virtual void backward() = 0;

  // What they wrote, and what the reference says of the inputs as they are now: ask for it first
  // where the forward works in place.
  [[nodiscard]] virtual std::vector<Result> results(bool with_backward) const = 0;
  [[nodiscard]] virtual std::vector<Result> expected(bool with_backward) const = 0;

  // The reference's SUM grad_out * out as a function of the variables, which are copies of the inputs.
  virtual std::vector<Variable> variables() = 0;
  virtual double loss() = 0;

  // True where the gradient jumps within float32's rounding of the inputs: CoPE at whole positions.
  [[nodiscard]] virtual bool at_a_kink() const { return false; }
  virtual std::string path() { return "fused"; }

 protected:
  Problem() = default;
  Problem(const Problem&) = default;
  Problem& operator=(const Problem&) = default;
};

std::unique_ptr<Problem> make_problem(const Case& c);

// The case with a seed for which no gradient jumps within rounding, so that float32 and float64 may be
// compared closely. Throws Error where several seeds in a row will not do.
Case away_from_kinks(Case c);

// Values away from every special point of their encoding.
std::vector<Parameters> random_parameters(const Spec& spec, const ModelShape& shape, Rng& rng);
// Names parameter p of encoding e, the same for its values and, after a "d", its gradient.
std::string parameter_label(const Spec& spec, std::size_t encoding, std::size_t parameter);
void append_parameter_gradients(const Spec& spec, const std::vector<Parameters>& gradients,
                                double terms, std::vector<Result>& results);
double inner_product(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace posenc::cases
