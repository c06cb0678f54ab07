// Attention with any spec on the CPU: tiled with online softmax, forward and backward, memory linear in the length.
//
//   q'_i = PROD_b T_b(i) q_i,  k'_j = PROD_b T_b(j) k_j         site 2, applied while rows are packed
//   r_ij = scale <q'_i, k'_j>
//   s_ij = r_ij + SUM_c B_c(h, i, j) + C(q_i, r_i*)_j           sites 3 and 4
//   o_i  = SUM_j dropout(softmax_j(mask(s_ij))) v_j
//
// The float64 reference (ref/attention.h) defines every term; ref/tokens.h defines masks and positions.
// Tensors are [batch, heads, tokens, channels] in float32, bfloat16 or float16, with any strides and
// contiguous channels; arithmetic is float32. Results are bitwise identical for any number of threads.
// Values and outputs may have fewer or more channels (Dv) than queries and keys (D), as in DeepSeek V3 (128 and 192) and
// PoPE; rope(values=true) and cope(gate_source=value) need as many.
// A forward call may have keys, values and inputs of another of these types than its queries, as a cache
// in float16 has for queries in float32. The backward needs one type. Decode steps read int8 caches too.
//
// NaN and overflow. A row of `out` is NaN if there is a NaN in its query, in an unmasked key or value, in
// its inputs (an unmasked gate, log_f, must be a number: NaN is an error), in the scale or in a parameter
// that it uses; if an unmasked score is +infinity; or if all unmasked scores are -infinity. Then its lse is
// NaN where its weights are, dq of the row is NaN, and so are the entries of dk, dv and the parameter
// gradients to which the row contributes. Other rows do not change: masked keys and values may hold
// anything, even uninitialised memory. A row is 0 only if all of its keys are masked.
//
// All Toeplitz biases (ALiBi, T5, KERPLE, learned relative) are summed into one table per head. The kernel
// has five score modifiers (this table, FIRE, CoPE, a term per token and a vector per distance) and fuses
// any mix of them with any site-2 encodings, with softmax or stick-breaking. Calls that are not fused run
// the reference if they allow it; explain() tells which path a call takes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "posenc/core/dropout.h"
#include "posenc/core/tensor_view.h"
#include "posenc/encodings/rotary_cache.h"
#include "posenc/encodings/spec.h"
#include "posenc/kernels/block_table.h"
#include "posenc/kernels/positions.h"

namespace posenc {

// Let n and m be the indices of a query and a key in their sequence, with the last query aligned to the
// last key. A query attends to a key of its sequence if all of these conditions hold.
struct AttentionMask {
  bool causal = false;                     // m <= n
  std::int64_t window_left = -1;           // n - window_left <= m; -1: no limit
  std::int64_t window_right = -1;          // m <= n + window_right; -1: no limit
  const std::uint8_t* key_mask = nullptr;  // [batch, keys]: 1, or 0 for padding
  // Packed sequences: cumulative lengths {0, n_1, .., T}. One may be empty if both are equal.
  std::span<const std::int64_t> cu_queries = {};
  std::span<const std::int64_t> cu_keys = {};
};

struct Terms;

// A spec prepared for a model shape: frequencies, cos/sin tables, kernel selection. Create it once and
// use it for many calls. Immutable, and safe to share between threads.
class AttentionPlan {
 public:
  // Throws Error if the spec does not fit the shape or has encodings of site 1 (attention_part() removes
  // them). For length-dependent rotations, `lengths` must be at least the longest sequence passed to
  // attention(). `policy` controls the cos/sin tables.
  AttentionPlan(Spec spec, ModelShape shape, std::int64_t kv_heads, Lengths lengths = {},
                CachePolicy policy = {});
  ~AttentionPlan();
  AttentionPlan(AttentionPlan&&) noexcept;
  AttentionPlan& operator=(AttentionPlan&&) noexcept;

  // The compiled spec, for backends; `state` is for the CPU kernels.
  [[nodiscard]] const Terms& terms() const;
  struct State;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct AttentionCall {
  const AttentionPlan* plan = nullptr;
  const std::vector<Parameters>* parameters = nullptr;  // per encoding of the spec
  ConstTensorView q = {};                               // [B, H, Tq, D]
  ConstTensorView k = {};                               // [B, Hkv, Tk, D]
  ConstTensorView v = {};                               // [B, Hkv, Tk, Dv]
  std::span<const ConstTensorView> inputs = {};         // in the order of token_inputs(spec, shape)
  TensorView out = {};                                  // [B, H, Tq, Dv]
  std::span<float> lse = {};  // [B, H, Tq], needed by the backward; may be empty otherwise
  AttentionMask mask = {};
  PositionsView q_positions = {};  // default: indices in the sequence
  PositionsView k_positions = {};
  std::optional<double> scale = {};  // default: 1/sqrt(D)
  Dropout dropout = {};
  // The keys are already rotated, as in a cache that rope() filled; dk is the gradient of the rotated
  // keys. An error for length-dependent rotations (posenc/encodings/length.h): cache those keys
  // unrotated and create a plan for each new length.
  bool keys_are_turned = false;
  // A call that no fused kernel supports (see capability.h) runs the slow float64 reference if this is set, and fails
  // with kUnsupported otherwise.
  bool allow_reference = false;
  // Scales of an int8 cache, float32 [B, Hkv, Tk, 1]: given where k or v is int8 (posenc/kernels/quantize.h writes
  // both), and only there. Decode steps alone read int8: up to eight queries, no packed sequences, and a spec that
  // capability() puts on AttentionPath::kDecode. A key or value whose scale is NaN is NaN.
  ConstTensorView k_scales = {};
  ConstTensorView v_scales = {};
  // A paged cache: k, v, their scales and `inputs` are pools of pages. Not for a backward.
  BlockTable block_table = {};
};

struct AttentionBackwardCall {
  AttentionCall forward = {};     // the forward call; `out` and `lse` hold its results
  ConstTensorView grad_out = {};  // as out
  TensorView dq = {};
  TensorView dk = {};
  TensorView dv = {};
  std::span<const TensorView> dinputs = {};        // one per entry of `inputs`
  std::vector<Parameters>* dparameters = nullptr;  // optional output, shaped as the parameters
};

// All arguments are checked first: on error nothing is written, and the message names the argument.
Status attention(const AttentionCall& call) noexcept;
Status attention_backward(const AttentionBackwardCall& call) noexcept;

// What rotate_keys reads for rope(angles=input): the sequence up to the last of the keys.
struct RotatedInputs {
  // In the order of token_inputs(spec, shape), as AttentionCall::inputs: [B, Hkv, tokens, channels], whose last tokens
  // are those of k. With running=true they start at the first token of the sequence. Other inputs are ignored.
  std::span<const ConstTensorView> inputs = {};
  const std::uint8_t* key_mask = nullptr;  // [B, tokens]: steps of hidden tokens are left out
};

// Rotates keys for a cache: k_out = PROD_b T_b(j) k, which a call with keys_are_turned reads. k and k_out are
// [B, Hkv, T, D] and either the same tensor or disjoint; positions default to 0, 1, .. (use `offsets` for a decode
// step). Without a rotation in the spec the keys are copied. Unsupported for length-dependent rotations, trained
// frequencies and rotated values: cache those keys unrotated.
Status rotate_keys(const AttentionPlan& plan, const ConstTensorView& k, const TensorView& k_out,
                   const PositionsView& positions = {}, const RotatedInputs& inputs = {}) noexcept;

// Describes which paths a call and its backward take, and why:
// "fused, rope while reading rows, toeplitz table (alibi), cope; backward: fused; memory X, backward Y", or
// "reference (float64): more than one cope; backward: reference (float64); memory X, backward Y".
// capability() returns the same as a struct.
std::string explain(const AttentionCall& call);

// The same without tensors, for a causal call with contiguous float32 tensors of these shapes. Throws Error
// if the spec does not fit the shapes.
struct AttentionShapes {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t head_dim = 64;
  bool explicit_positions = false;
  bool paged = false;          // a block table
  std::int64_t value_dim = 0;  // channels of v; 0: head_dim
};
std::string explain(const Spec& spec, const AttentionShapes& shapes);

}  // namespace posenc

// SPDX-License-Identifier: MIT
