// The reference of site 1: position vectors added to token embeddings, scalar float64.
//
//   y[b, t] = x[b, t] + SUM_a E_a(n[b, t])        x, y [B, T, model_dim]; n [B, T]
//
// Backward: dx = dy, and row n[b, t] of a learned table accumulates dy[b, t]. Encodings of other sites
// are ignored. A position outside a learned table is an error.
#pragma once

#include "posenc/kernels/ref/attention.h"

namespace posenc::ref {

struct EmbeddingShape {
  std::int64_t batch = 1;      // B
  std::int64_t tokens = 0;     // T
  std::int64_t model_dim = 1;  // width of an embedding
};

struct EmbeddingGradients {
  std::vector<double> x;      // [B, T, model_dim]
  SpecParameters parameters;  // with the shapes of the values; 0 for other sites
};

// Without positions, token t has position t.
std::vector<double> add_embeddings(const Spec& spec, const SpecParameters& parameters,
                                   const EmbeddingShape& shape, std::span<const double> x,
                                   std::span<const std::int64_t> positions = {});

EmbeddingGradients add_embeddings_backward(const Spec& spec, const SpecParameters& parameters,
                                           const EmbeddingShape& shape,
                                           std::span<const double> grad_out,
                                           std::span<const std::int64_t> positions = {});

}  // namespace posenc::ref

// SPDX-License-Identifier: MIT
