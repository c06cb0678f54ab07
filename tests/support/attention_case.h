// A random attention problem that owns its tensors.
#pragma once

#include <string_view>

#include "posenc/core/rng.h"
#include "posenc/kernels/reference.h"
#include "support/finite_difference.h"
#include "support/golden.h"

namespace posenc::testing {

std::vector<double> random_normal(std::int64_t count, Rng& rng, double deviation = 1.0);

// Values away from every special point: nothing at zero, nothing on a clamp.
ref::SpecParameters random_parameters(const Spec& spec, const ModelShape& shape, Rng& rng);

struct AttentionCase {
  Spec spec;
  ref::SpecParameters parameters;
  ref::AttentionShape shape;
  ref::AttentionOptions options;
  std::vector<double> q, k, v, grad_out;
  std::vector<std::vector<double>> of_encodings;  // as token_inputs(spec, shape) lists them

  [[nodiscard]] ref::AttentionInputs inputs() const {
    return {q, k, v, {of_encodings.begin(), of_encodings.end()}};
  }
  [[nodiscard]] std::vector<SpecInput> token_inputs() const {
    return posenc::token_inputs(spec,
                                {.head_dim = shape.head_dim, .heads = shape.heads, .model_dim = 0});
  }
  [[nodiscard]] ref::AttentionOutput forward() const;
  [[nodiscard]] ref::AttentionGradients backward() const;
};

ref::AttentionOptions causal();
// Causal, of two batch entries of 9 tokens: as it is, with a window, with padding, and packed.
std::vector<ref::AttentionOptions> causal_settings();

AttentionCase random_case(std::string_view spec, const ref::AttentionShape& shape,
                          const ref::AttentionOptions& options, std::uint64_t seed);

// Every gradient of SUM grad_out * out against differences. `loss` reads the case.
GradientReport compare_all_gradients(AttentionCase& problem,
                                     const ref::AttentionGradients& gradients,
                                     const std::function<double()>& loss);
// The case's own gradients.
GradientReport compare_all_gradients(AttentionCase& problem);

double inner_product(const std::vector<double>& a, const std::vector<double>& b);
// The largest |got - want| / (1 + |want|).
double largest_mixed_error(const std::vector<double>& got, const std::vector<double>& want);

// Specs that between them use every encoding, variant and kind of composition; 4 channels suffice.
const std::vector<std::string>& many_specs();

}  // namespace posenc::testing
