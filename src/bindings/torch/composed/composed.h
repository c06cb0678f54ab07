// Attention with any spec from libtorch's own operations: what runs on a device where no fused kernel
// serves the call. Scores are tensors of Tq x Tk, in float32 (float64 for float64), and gradients come
// from autograd.
#pragma once

#include "torch/composed/tokens.h"

namespace posenc::ops {

struct ComposedCall {
  std::shared_ptr<const Prepared> prepared;
  at::Tensor q, k, v;
  std::vector<at::Tensor> inputs;  // of the encodings
  at::Tensor parameters;           // joined
  const Tokens* tokens = nullptr;
  c10::optional<double> scale;
  Dropout dropout;
  bool keys_are_turned = false;
};

struct ComposedResult {
  at::Tensor out;             // as q
  at::Tensor lse;             // [B, H, Tq]
  at::Tensor weights;         // [B, H, Tq, Tk], before dropout
  at::Tensor cope_positions;  // of the first CoPE, or undefined
};
ComposedResult composed_attention(const ComposedCall& call);
AttentionBackward composed_attention_backward(const ComposedCall& call, const at::Tensor& grad_out,
                                              bool wants_parameters = true);

// Turns x [B, H, T, D] by a rotation at positions [B or 1, T, axes or 1]; `alpha` of the learnable
// schedule, or undefined. Frequencies are those of the query heads.
at::Tensor composed_rotation(const Encoding& encoding, const ModelShape& shape,
                             const Lengths& lengths, Role role, const at::Tensor& x,
                             const at::Tensor& positions, const at::Tensor& alpha);

// Turned keys moved from one set of positions to another, as posenc::rerotate moves one row.
at::Tensor composed_rerotation(const Rotary& from, const at::Tensor& from_positions,
                               const Rotary& to, const at::Tensor& to_positions,
                               const at::Tensor& x);

}  // namespace posenc::ops
