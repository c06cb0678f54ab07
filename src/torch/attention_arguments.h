// The arguments of the attention operators, listed once: schema, kernels, autograd and autocast agree
// because they are made from the same lists.
#pragma once

#include "torch/arguments.h"

namespace posenc::ops {

// After q, k, v and the parameters, which are the tensors that are differentiated with gate_k.
#define POSENC_ATTENTION_SCHEMA                                                                  \
  "Tensor? gate_k, str spec, bool causal, int window_left, int window_right, Tensor? key_mask, " \
  "Tensor? cu_queries, Tensor? cu_keys, Tensor? q_positions, Tensor? k_positions, "              \
  "float? scale, float dropout, int seed, bool keys_are_turned"

#define POSENC_ATTENTION_PARAMETERS                                                                \
  const OptionalTensor &gate_k, std::string spec, bool causal, std::int64_t window_left,           \
      std::int64_t window_right, const OptionalTensor &key_mask, const OptionalTensor &cu_queries, \
      const OptionalTensor &cu_keys, const OptionalTensor &q_positions,                            \
      const OptionalTensor &k_positions, c10::optional<double> scale, double dropout,              \
      std::int64_t seed, bool keys_are_turned

#define POSENC_ATTENTION_NAMES                                                                 \
  gate_k, spec, causal, window_left, window_right, key_mask, cu_queries, cu_keys, q_positions, \
      k_positions, scale, dropout, seed, keys_are_turned

// A call in the terms of the kernels. Owns what the views point into.
class AttentionArguments {
 public:
  AttentionArguments(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS);

  [[nodiscard]] AttentionCall call(const at::Tensor& out, const at::Tensor& lse) const;
  [[nodiscard]] ref::AttentionOptions ref_options() const;
  [[nodiscard]] ref::AttentionShape ref_shape() const;

  at::Tensor q, k, v, gate_k;  // gate_k may be undefined
  std::shared_ptr<const Prepared> prepared;
  std::vector<Parameters> values;

 private:
  Places places_;
  c10::optional<double> scale_;
  Dropout dropout_;
  bool keys_are_turned_;
};

// The two operators of the dispatcher. Forward: out as q, and the logarithm of each row's sum.
using AttentionForward = std::tuple<at::Tensor, at::Tensor>;
// Gradients of q, k, v, gate_k (empty where it is absent) and of the joined parameters (zeros where they are
// not wanted: sums over all scores are spared then).
using AttentionBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

AttentionForward call_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS);
AttentionBackward call_attention_backward(const at::Tensor& grad_out, const at::Tensor& out,
                                          const at::Tensor& lse, const at::Tensor& q,
                                          const at::Tensor& k, const at::Tensor& v,
                                          const at::Tensor& parameters, POSENC_ATTENTION_PARAMETERS,
                                          bool wants_parameters);

}  // namespace posenc::ops
