// Linear attention with site-2 encodings (rope, xpos), forward and backward, and a recurrent state for
// decoding. Time is linear in the length and scratch memory does not depend on it.
//
//   o_i = SUM_j n_ij v_j / SUM_j d_ij                    over the unmasked keys of i
//
//   form=rotated_numerator:  n_ij = <T(i) phi(q_i), T(j) phi(k_j)>,   d_ij = <phi(q_i), phi(k_j)>
//   form=cosine:             n_ij = d_ij = 1 + <u(T(i) q_i), u(T(j) k_j)>,   u(x) = x / |x|
//
// The first is equation 19 of Su et al. 2021 (arXiv 2104.09864): the denominator is not rotated and
// stays positive. phi is elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236) or relu(x) +
// epsilon (Choromanski et al. 2020, arXiv 2009.14794). Because n_ij is an inner product of
// features, SUM_j n_ij v_j = (SUM_j k'_j v_j^T)^T q'_i: a query needs only a D x D running sum over
// the keys. Tokens are processed in chunks (Hua et al. 2022, arXiv 2202.10447): masked products
// within a chunk, the running sum between chunks. The backward has the same structure: from the
// first key to the last for dq, and from the last query to the first for dk and dv.
//
// The float64 reference (ref/linear_attention.h) defines every term; masks and positions are those of
// attention.h. Tensors are [batch, heads, tokens, channels] in float32, bfloat16 or float16, with any
// strides and contiguous channels; arithmetic is float32. Sequences and heads run in parallel, and
// results are bitwise identical for any number of threads.
//
// Not supported (kUnsupported): windows, and encodings of sites 3 and 4, which need rows of scores.
#pragma once

#include <span>
#include <vector>

#include "posenc/kernels/attention.h"

namespace posenc {

struct LinearAttentionOptions {
  enum class Form { kRotatedNumerator, kCosine };
  enum class FeatureMap { kElu, kRelu };

  Form form = Form::kRotatedNumerator;
  FeatureMap feature_map = FeatureMap::kElu;  // ignored by kCosine
  double epsilon = 1e-3;                      // for kRelu, > 0
};

struct LinearAttentionCall {
  const AttentionPlan* plan = nullptr;
  const std::vector<Parameters>* parameters = nullptr;  // per encoding of the spec
  ConstTensorView q = {};                               // [B, H, Tq, D]
  ConstTensorView k = {};                               // [B, Hkv, Tk, D]
  ConstTensorView v = {};                               // [B, Hkv, Tk, D]
  TensorView out = {};                                  // [B, H, Tq, D]
  // SUM_j d_ij, [B, H, Tq], 0 if all keys are masked. Needed by the backward; may be empty otherwise.
  std::span<float> denominator = {};
  AttentionMask mask = {};         // without windows
  PositionsView q_positions = {};  // default: indices in the sequence
  PositionsView k_positions = {};
  LinearAttentionOptions options = {};
};

struct LinearAttentionBackwardCall {
  LinearAttentionCall forward = {};  // the forward call; `out` and `denominator` hold its results
  ConstTensorView grad_out = {};
  TensorView dq = {};
  TensorView dk = {};
  TensorView dv = {};
  std::vector<Parameters>* dparameters = nullptr;  // optional output, shaped as the parameters
};

// All arguments are checked first: on error nothing is written, and the message names the argument.
// A query whose keys are all masked has output 0 and no gradient.
Status linear_attention(const LinearAttentionCall& call) noexcept;
Status linear_attention_backward(const LinearAttentionBackwardCall& call) noexcept;

// The recurrent state of causal linear attention: per batch entry and key head, SUM_j k'_j v_j^T and
// the sum of the denominator's features, in float32. Copy it to branch a sequence. There is one sum
// per query head if the query heads of a key head have different rotation frequencies.
//
//   LinearAttentionState state(plan, &parameters, batch);
//   state.step({.q = prompt_q, .k = prompt_k, .v = prompt_v, .out = prompt_out});   // T tokens
//   state.step({.q = q, .k = k, .v = v, .out = out});                               // 1 token
class LinearAttentionState {
 public:
  // Any number of tokens; attention is causal.
  struct Step {
    ConstTensorView q = {};        // [B, H, T, D]
    ConstTensorView k = {};        // [B, Hkv, T, D]
    ConstTensorView v = {};        // [B, Hkv, T, D]
    TensorView out = {};           // [B, H, T, D]
    PositionsView positions = {};  // default: continue from tokens()
  };

  // Keeps pointers to the plan and the parameters. Throws Error if the spec needs rows of scores or an
  // option is out of range.
  LinearAttentionState(const AttentionPlan& plan, const std::vector<Parameters>* parameters,
                       std::int64_t batch, LinearAttentionOptions options = {});

  // Not thread-safe. On error the state does not change.
  Status step(const Step& step) noexcept;
  void reset() noexcept;

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return (sums_.size() + key_sums_.size()) * sizeof(float);
  }

 private:
  [[nodiscard]] LinearAttentionCall call_of(const Step& step,
                                            const std::vector<std::int64_t>& offsets) const;

  const AttentionPlan* plan_;
  const std::vector<Parameters>* parameters_;
  std::int64_t batch_;
  LinearAttentionOptions options_;
  std::int64_t heads_;  // number of sums per batch entry
  std::int64_t tokens_ = 0;
  std::vector<float> sums_;      // [batch][heads][features][padded channels]
  std::vector<float> key_sums_;  // [batch][heads][padded features]
};

}  // namespace posenc

// SPDX-License-Identifier: MIT
