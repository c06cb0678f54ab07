// Linear attention with site-2 encodings (rope, xpos): time linear in the length, scratch that does
// not grow with it, forward and backward, and a state that continues a sequence token by token.
//
//   o_i = SUM_j n_ij v_j / SUM_j d_ij                    over the keys that i sees
//
//   form=rotated_numerator:  n_ij = <T(i) phi(q_i), T(j) phi(k_j)>,   d_ij = <phi(q_i), phi(k_j)>
//   form=cosine:             n_ij = d_ij = 1 + <u(T(i) q_i), u(T(j) k_j)>,   u(x) = x / |x|
//
// The first is equation 19 of Su et al. 2021 (arXiv 2104.09864): the denominator is not rotated and
// stays positive. phi is elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236) or relu(x) +
// epsilon (Choromanski et al. 2020, arXiv 2009.14794). Because n_ij is an inner product of
// features, SUM_j n_ij v_j = (SUM_j k'_j v_j^T)^T q'_i: a D x D sum carried from key to key is all
// that a query needs. Tokens go in chunks (Hua et al. 2022, arXiv 2202.10447): inside a chunk the
// masked products themselves, between chunks the sum. The backward is the same walk with other
// rows: from the first key to the last for dq, from the last query to the first for dk and dv.
//
// The meaning of every part is that of the float64 reference (ref/linear_attention.h); masks and
// positions are as in attention.h. Tensors are [batch, heads, tokens, channels] in float32,
// bfloat16 or float16, any strides with contiguous channels; arithmetic is float32. Heads of every
// sequence run in parallel, and results are the same bits for any number of threads.
//
// Not here: windows, and encodings of sites 3 and 4, which need a row of scores (kUnsupported).
#pragma once

#include <span>
#include <vector>

#include "posenc/kernels/attention.h"

namespace posenc {

struct LinearAttentionOptions {
  enum class Form { kRotatedNumerator, kCosine };
  enum class FeatureMap { kElu, kRelu };

  Form form = Form::kRotatedNumerator;
  FeatureMap feature_map = FeatureMap::kElu;  // not read by the cosine
  double epsilon = 1e-3;                      // of relu, > 0
};

struct LinearAttentionCall {
  const AttentionPlan* plan = nullptr;
  const std::vector<Parameters>* parameters = nullptr;  // per encoding of the spec
  ConstTensorView q;                                    // [B, H, Tq, D]
  ConstTensorView k;                                    // [B, Hkv, Tk, D]
  ConstTensorView v;                                    // [B, Hkv, Tk, D]
  TensorView out;                                       // [B, H, Tq, D]
  // SUM_j d_ij: B * H * Tq, 0 where no key is seen; or empty where no backward follows.
  std::span<float> denominator;
  AttentionMask mask;         // without windows
  PositionsView q_positions;  // default: places
  PositionsView k_positions;
  LinearAttentionOptions options;
};

struct LinearAttentionBackwardCall {
  LinearAttentionCall forward;  // as it was called; `out` and `denominator` hold its results
  ConstTensorView grad_out;
  TensorView dq;
  TensorView dk;
  TensorView dv;
  std::vector<Parameters>* dparameters = nullptr;  // optional; written, shaped as the parameters
};

// All arguments are checked first: on an error nothing is written, and the message names the
// argument. A query that sees no key has output 0 and no gradient.
Status linear_attention(const LinearAttentionCall& call) noexcept;
Status linear_attention_backward(const LinearAttentionBackwardCall& call) noexcept;

// What a causal sequence has left behind: per batch entry and key head SUM_j k'_j v_j^T and the sum
// of the denominator's features, in float32. A value: copy it to branch a sequence. Key heads are
// one per query head where the heads of a group turn by different frequencies.
//
//   LinearAttentionState state(plan, &parameters, batch);
//   state.step({.q = prompt_q, .k = prompt_k, .v = prompt_v, .out = prompt_out});   // T tokens
//   state.step({.q = q, .k = k, .v = v, .out = out});                               // 1 token
class LinearAttentionState {
 public:
  // Any number of tokens, each of which sees those before it and itself.
  struct Step {
    ConstTensorView q;        // [B, H, T, D]
    ConstTensorView k;        // [B, Hkv, T, D]
    ConstTensorView v;        // [B, Hkv, T, D]
    TensorView out;           // [B, H, T, D]
    PositionsView positions;  // default: they go on from tokens()
  };

  // The plan and the parameters are borrowed. Throws Error where the spec needs a row of scores or
  // an option is out of range.
  LinearAttentionState(const AttentionPlan& plan, const std::vector<Parameters>* parameters,
                       std::int64_t batch, LinearAttentionOptions options = {});

  // Steps of one state are for one thread at a time. On an error the state is as it was.
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
  std::int64_t heads_;  // that have sums of their own
  std::int64_t tokens_ = 0;
  std::vector<float> sums_;      // [batch][heads][features][padded channels]
  std::vector<float> key_sums_;  // [batch][heads][padded features]
};

}  // namespace posenc
