// Converts tokens to the feature vectors of linear attention, and gradients back.
#pragma once

#include "kernels/ref/mask.h"
#include "kernels/ref/positions.h"
#include "kernels/ref/transforms.h"
#include "posenc/kernels/ref/linear_attention.h"

namespace posenc::ref::linear {

using Options = LinearAttentionOptions;
inline constexpr const char* kScope = "linear_attention";

// A call, checked and made ready. Borrows its arguments.
struct Call {
  // Throws where anything does not fit.
  Call(const Spec& spec, const SpecParameters& parameters, const AttentionShape& shape_in,
       const AttentionInputs& inputs_in, const Options& options_in);

  [[nodiscard]] bool cosine() const { return options.form == Options::Form::kCosine; }

  AttentionShape shape;
  AttentionInputs inputs;
  const Options& options;
  Mask mask;
  Positions positions;
  Transforms transforms;
};

// A token's vectors on one side of the inner products, or the gradients there. `plain` is for the
// denominator of the rotated numerator.
struct Feature {
  std::vector<double> plain;    // phi(x)
  std::vector<double> rotated;  // T phi(x), or u(T x)
};

// A token of one head: its source row and its features.
struct Token {
  Role role;
  std::int64_t head;
  std::span<const std::int64_t> position;
  std::span<const double> x;
};

Feature feature(const Call& call, const Token& token);

// From the gradient at a token's feature to that at its vector (added to dx) and at parameters.
void feature_backward(const Call& call, const Token& token, const Feature& df, std::span<double> dx,
                      SpecParameters& gradient);

// One head of one batch entry.
struct Head {
  Head(const Call& call, std::int64_t batch_in, std::int64_t head_in);

  [[nodiscard]] std::int64_t query_row(const Call& call, std::int64_t i) const {
    return query_matrix * call.shape.queries + i;
  }
  [[nodiscard]] std::int64_t key_row(const Call& call, std::int64_t j) const {
    return key_matrix * call.shape.keys + j;
  }
  [[nodiscard]] Token query(const Call& call, std::int64_t i) const;
  [[nodiscard]] Token key(const Call& call, std::int64_t j) const;

  std::int64_t batch;
  std::int64_t head;
  std::int64_t query_matrix;
  std::int64_t key_matrix;
  std::vector<Feature> queries;
  std::vector<Feature> keys;
};

}  // namespace posenc::ref::linear
