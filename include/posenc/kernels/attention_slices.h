// Attention in slices, for context parallelism: the queries of one part of a sequence attend to the keys of another. Calls
// on slices, on one machine or several, equal one call on the whole sequence up to the order of float32 sums. Results are
// bitwise identical if slices start at multiples of 128 and are processed from the last to the first.
//
//   SliceRows rows(call);                            once per slice of queries
//   for each slice of keys, from the last to the first:
//     kept[j] = rows.carry;                          for the backward, if carries_sum(plan)
//     attention_slice(call, slice, rows)
//   finish_slices(call, slice, rows)                 writes call.out and call.lse
//
// SliceRows holds the state of the online softmax between slices (maximum, sum, unnormalised output) and two more numbers
// per row: CoPE's position as an integer and a fraction, or the remainder of stick-breaking and the logarithm of what was
// taken. For specs with such a running sum, slices must be processed from the last keys to the first, and in the backward
// from the first to the last:
//
//   gate of key j:   dg_j = SUM_{m <= j} ds_m slope_m      SliceGradients::prefix holds the sum over earlier slices
//
// A call is that of attention.h with the tensors of two slices: q, out, lse, grad_out and dq of the queries; k, v, inputs,
// key_mask, dk, dv and dinputs of the keys. AttentionSlice gives their offsets in the whole sequence, which masks, windows,
// positions, biases and dropout use. User-given positions and packed sequences are errors. For length-dependent rotations,
// create the plan for the whole length. Gradients are those of the slice alone: sum dq over the slices of keys, dk, dv and
// dinputs over the slices of queries, and dparameters over all. They may be float32 for tensors of any type.
//
// Terms per token (fox, key_bias) have sums over the whole sequence: call slice_totals() for each slice, then slice_sums()
// with the totals of all slices before it; in the backward, slice_sums_backward().
//
// Memory: rows.out and a few numbers per query, the packed keys of the slice, and tables with an entry per distance within
// the slices. Nothing grows with the length of the whole sequence.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "posenc/kernels/attention.h"

namespace posenc {

// The offsets of a call's tensors in the whole sequence.
struct AttentionSlice {
  std::int64_t first_query = 0;  // index of query 0 in the sequence
  std::int64_t first_key = 0;    // index of key 0 in the sequence
  // For a term per token: [B, H, Tq] and [B, H, Tk] (SliceSums). Empty without one.
  std::span<const double> query_sums = {};
  std::span<const double> key_sums = {};
};

// The reason why a plan cannot run in slices ("fox(prune=true) needs all keys ..."), or an empty string.
std::string slice_obstacle(const AttentionPlan& plan);
// Whether rows have a running sum that fixes the order of the slices: CoPE, stick_breaking.
bool carries_sum(const AttentionPlan& plan);
// Whether there is a term per token.
bool has_token_sums(const AttentionPlan& plan);

// The state of all rows: each [B, H, Tq]; out has a number per channel of v for each.
struct SliceRows {
  explicit SliceRows(const AttentionCall& call);

  std::vector<float> maximum;
  std::vector<float> sum;
  std::vector<float> seen;
  std::vector<float> carry;  // [2][B, H, Tq]
  std::vector<float> out;
};

// Accumulates the keys of a call into the rows of its queries. Does not write call.out and call.lse.
Status attention_slice(const AttentionCall& call, const AttentionSlice& slice,
                       SliceRows& rows) noexcept;
// Writes call.out and call.lse. The keys of the call are ignored.
Status finish_slices(const AttentionCall& call, const AttentionSlice& slice,
                     SliceRows& rows) noexcept;

// State of the backward of a slice, in addition to its call.
struct SliceGradients {
  std::span<const float> carry = {};   // SliceRows::carry before the slice; empty without a sum
  std::span<float> prefix = {};        // [B, H, Tq], 0 before the first slice; empty without a sum
  std::span<double> dquery_sums = {};  // gradients of AttentionSlice's sums: added to; may be empty
  std::span<double> dkey_sums = {};
  bool with_sinks = false;  // adds the gradients of sinks: set it for one slice of keys per row
};

// Does not write dinputs of a term per token: see slice_sums_backward().
Status attention_slice_backward(const AttentionBackwardCall& call, const AttentionSlice& slice,
                                const SliceGradients& gradients) noexcept;

// For a term per token: the total of a slice of tokens, [B, H], which is added to the sums of later tokens. call.inputs,
// call.k and the key mask are those of the slice.
std::vector<double> slice_totals(const AttentionCall& call);
// The sums of a slice for its queries and its keys, [B, H, T]. `before` is the sum of the totals of earlier slices, [B, H].
struct SliceSums {
  std::vector<double> at_query;
  std::vector<double> at_key;
};
SliceSums slice_sums(const AttentionCall& call, std::span<const double> before);
// The gradient of the input from `dsums`, the gradient of at_query plus that of at_key. `after` is the sum of these
// gradients over later slices, [B, H].
void slice_sums_backward(const AttentionCall& call, std::span<const double> dsums,
                         std::span<const double> after, const TensorView& dinput);
// The index of the term's input among the plan's inputs.
std::size_t token_input(const AttentionPlan& plan);

}  // namespace posenc

// SPDX-License-Identifier: MIT
