// Attention with any spec as libtorch operations: the fallback on devices where no fused kernel
// supports the call. Scores are Tq x Tk tensors in float32 (float64 for float64), and gradients come
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

struct ComposedResult {
  at::Tensor out;             // as q, with the channels of v
  at::Tensor lse;             // [B, H, Tq]; of sticks, the logarithm of what is left
  at::Tensor weights;         // [B, H, Tq, Tk], before dropout
  at::Tensor cope_positions;  // of the first CoPE, or undefined
};
ComposedResult composed_attention(const ComposedCall& call);
AttentionBackward composed_attention_backward(const ComposedCall& call, const at::Tensor& grad_out,
                                              bool wants_parameters = true);

}  // namespace posenc::ops
