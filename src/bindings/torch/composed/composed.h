// Attention with any spec from libtorch's own operations: what runs on a device where no fused kernel
// serves the call. Scores are tensors of Tq x Tk, in float32 (float64 for float64), and gradients come
// from autograd.
#pragma once

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

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

// Operators run below autograd; while this lives, it is on again.
struct WithAutograd {
  c10::impl::ForceDispatchKeyGuard all_keys{
      c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{})};
  c10::AutoGradMode with_graph{true};
};

// Whether a query sees a key, [B or 1, 1, Tq, Tk]; where sticks are broken, keys before it alone.
at::Tensor visible_keys(const ComposedCall& call);

// What temperatures multiply queries by, float64 [B or 1, H or 1, Tq, 1]; undefined where there are none. `without`: as
// of posenc::query_factor.
at::Tensor query_factors(const Terms& terms, const Tokens& tokens,
                         const std::vector<std::vector<at::Tensor>>& parameters,
                         std::optional<std::size_t> without = std::nullopt);

// Rows x [B, H, T, D] of queries or keys through site 2, in the type of x. `parameters` as parameter_tensors() has
// them. Differentiable in x, the parameters and the inputs of the call. Memory is linear in the length.
at::Tensor rotated_rows(const ComposedCall& call,
                        const std::vector<std::vector<at::Tensor>>& parameters, Role role,
                        const at::Tensor& x);

struct ComposedResult {
  at::Tensor out;             // as q
  at::Tensor lse;             // [B, H, Tq]; of sticks, the logarithm of what is left
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
