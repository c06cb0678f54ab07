// Attention with any spec: tiled, online softmax, forward and backward, memory linear in the length.
//
//   q'_i = PROD_b T_b(i) q_i,  k'_j = PROD_b T_b(j) k_j         site 2, applied while rows are packed
//   r_ij = scale <q'_i, k'_j>
//   s_ij = r_ij + SUM_c B_c(h, i, j) + C(q_i, r_i*)_j           sites 3 and 4
//   o_i  = SUM_j dropout(softmax_j(mask(s_ij))) v_j
//
// The meaning of every part is that of the float64 reference (ref/attention.h); masks and positions are
// as in ref/tokens.h. Tensors are [batch, heads, tokens, channels] in float32, bfloat16 or float16, any
// strides with contiguous channels; arithmetic is float32. Results are the same bits for any number of
// threads.
//
// NaN and overflow. A row of `out` is NaN if it sees one: a NaN in its query, in a visible key or value
// or in its inputs, in the scale or in a parameter it reads; a visible score of +infinity; or no visible score
// above -infinity. Its lse is NaN where its weights are, its gradient dq is NaN, and so are dk, dv and
// the gradients of parameters wherever such a row adds to them. No other row changes: a hidden key or
// value may hold anything, also memory that was never written. A row is 0 only where no key is visible.
//
// Every sum of Toeplitz biases (ALiBi, T5, KERPLE, learned relative) is one table per head, so the
// kernel knows five modifiers (that table, FIRE's row function, CoPE, a term per token and a vector per distance), and
// any mix of them with any site-2 encodings is fused, with a softmax or with a stick in its place. What is not fused
// runs through the reference where the call allows it; explain() says which path a call takes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "posenc/core/dropout.h"
#include "posenc/core/tensor_view.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/positions.h"

namespace posenc {

// With n the query's place and m the key's (their indices in their sequence, queries aligned with the
// last keys), a query sees a key of its own sequence where all of these hold.
struct AttentionMask {
  bool causal = false;                     // m <= n
  std::int64_t window_left = -1;           // n - window_left <= m; -1: no bound
  std::int64_t window_right = -1;          // m <= n + window_right; -1: no bound
  const std::uint8_t* key_mask = nullptr;  // [batch, keys], 1, or 0 for padding
  // Packed sequences: cumulative lengths {0, n_1, .., T}. One may be left out where both are equal.
  std::span<const std::int64_t> cu_queries;
  std::span<const std::int64_t> cu_keys;
};

struct Terms;

// What can be made ready before tensors are there: frequencies, tables of cos and sin, the choice of
// path. Immutable, and safe to share between threads.
class AttentionPlan {
 public:
  // Throws Error where the spec does not fit the shape or has encodings of site 1 (attention_part()
  // leaves them out). Rotations that follow the length read it from `lengths`, which attention() wants
  // to be that of its longest sequence or more; tables grow as the policy says.
  AttentionPlan(Spec spec, ModelShape shape, std::int64_t kv_heads, Lengths lengths = {},
                CachePolicy policy = {});
  ~AttentionPlan();
  AttentionPlan(AttentionPlan&&) noexcept;
  AttentionPlan& operator=(AttentionPlan&&) noexcept;

  // What the spec compiled to, for the backends; `state` is of the CPU kernels alone.
  [[nodiscard]] const Terms& terms() const;
  struct State;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct AttentionCall {
  const AttentionPlan* plan = nullptr;
  const std::vector<Parameters>* parameters = nullptr;  // per encoding of the spec
  ConstTensorView q;                                    // [B, H, Tq, D]
  ConstTensorView k;                                    // [B, Hkv, Tk, D]
  ConstTensorView v;                                    // [B, Hkv, Tk, D]
  std::span<const ConstTensorView> inputs;              // as token_inputs(spec, shape) lists them
  TensorView out;                                       // [B, H, Tq, D]
  std::span<float> lse;  // B * H * Tq, or empty where no backward follows
  AttentionMask mask;
  PositionsView q_positions;  // default: places
  PositionsView k_positions;
  std::optional<double> scale;  // default: 1/sqrt(D)
  Dropout dropout;
  // The keys went through site 2 before they were cached (rope() does it): they are read as they are,
  // and their gradient is that of the turned keys. Refused for rotations that follow the length
  // (posenc/encodings/length.h): cache those keys unrotated, and make the plan for each new length.
  bool keys_are_turned = false;
  // What no fused kernel serves (capability.h says what and why) runs through the float64 reference if this is set,
  // and is refused (kUnsupported) if not.
  bool allow_reference = false;
};

struct AttentionBackwardCall {
  AttentionCall forward;  // as it was called; `out` and `lse` hold its results
  ConstTensorView grad_out;
  TensorView dq;
  TensorView dk;
  TensorView dv;
  std::span<const TensorView> dinputs;             // one per entry of `inputs`
  std::vector<Parameters>* dparameters = nullptr;  // optional; written, shaped as the parameters
};

// All arguments are checked first: on an error nothing is written, and the message names the argument.
Status attention(const AttentionCall& call) noexcept;
Status attention_backward(const AttentionBackwardCall& call) noexcept;

// Which paths a call and its backward take, and why:
// "fused, rope while reading rows, toeplitz table (alibi), cope; backward: fused; memory X, backward Y", or
// "reference (float64): more than one cope; backward: reference (float64); memory X, backward Y".
// capability.h has the same as data.
std::string explain(const AttentionCall& call);

// The same before there are tensors, for a causal call of contiguous float32 ones. Throws Error where the
// spec does not fit the shapes.
struct AttentionShapes {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t head_dim = 64;
  bool explicit_positions = false;
};
std::string explain(const Spec& spec, const AttentionShapes& shapes);

}  // namespace posenc
