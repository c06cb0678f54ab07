// Site 1: position vectors added to token embeddings.
//
//   y[b, t] = x[b, t] + SUM_a E_a(n[b, t])        x, y [B, T, model_dim]; n [B, T]
//
// Tensors are views [batch, 1, tokens, model_dim] in float32, bfloat16 or float16; vectors are computed
// in float64 and added in float32. Encodings of other sites are ignored. A position outside a learned
// table is an error, and nothing is written.
//
// Backward: dx = dy, so only learned tables have a gradient; row n[b, t] of a table accumulates dy[b, t].
#pragma once

#include "posenc/core/tensor_view.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/positions.h"

namespace posenc {

struct EmbeddingCall {
  const Spec* spec = nullptr;
  const std::vector<Parameters>* parameters = nullptr;  // per encoding of the spec
  ConstTensorView x = {};
  TensorView y = {};  // x for in-place, or a tensor that does not overlap it
  PositionsView positions = {};
};
Status add_embeddings(const EmbeddingCall& call) noexcept;

struct EmbeddingGradientCall {
  const Spec* spec = nullptr;
  const std::vector<Parameters>* parameters = nullptr;
  ConstTensorView dy = {};
  PositionsView positions = {};
  std::vector<Parameters>* dparameters = nullptr;  // output, with the shapes of the parameters
};
Status add_embeddings_gradient(const EmbeddingGradientCall& call) noexcept;

}  // namespace posenc

// SPDX-License-Identifier: MIT
