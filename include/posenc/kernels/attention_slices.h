// Attention in slices: the queries of one part of a sequence against the keys of another. A call on the whole sequence
// equals a few calls on slices, made on one machine or on several (context parallelism): in float32 up to the order of
// sums, and to the same bits where slices start at multiples of 128 and are visited from the last to the first.
//
//   SliceRows rows(call);                            once for a slice of queries
//   for slices of keys, the last one first:
//     kept[j] = rows.carry;                          for the backward; only where carries_sum(plan)
//     attention_slice(call, slice, rows)
//   finish_slices(call, slice, rows)                 writes call.out and call.lse
//
// What a row carries from one slice of keys to the next is the online softmax (maximum, sum, output, none of them divided
// yet) and two numbers: CoPE's position, as a whole number and a fraction, or what is left of a stick and the logarithm
// of what it has lost. Where there is such a sum, slices must be visited from the last keys to the first, and in the
// backward from the first to the last:
//
//   gate of key j:   dg_j = SUM_{m <= j} ds_m slope_m      a sum over the keys before, which SliceGradients::prefix carries
//
// A call is that of attention.h with the tensors of two slices: q, out, lse, grad_out and dq of the queries, k, v, inputs,
// key_mask, dk, dv and dinputs of the keys. Masks, windows, positions, biases and dropout follow the places in the whole
// sequence, which AttentionSlice gives; positions and packed sequences are refused. A plan whose rotations follow the
// length is made for the whole length. Gradients are those of the slice alone: the caller adds dq over the slices of keys,
// dk, dv and dinputs over those of queries, and dparameters over all. They may be float32 whatever their tensors are.
//
// Terms per token (fox, key_bias) have sums over the tokens of the whole sequence: slice_totals() of each slice, then
// slice_sums() with the totals of all slices before it; back, slice_sums_backward().
//
// Memory: rows.out and a few numbers per query, packed keys of the slice, tables of as many distances as the slices have:
// nothing grows with the whole length.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "posenc/kernels/attention.h"

namespace posenc {

// Where the tensors of a call are in the sequence.
struct AttentionSlice {
  std::int64_t first_query = 0;  // place of query 0
  std::int64_t first_key = 0;    // place of key 0
  // Of a term per token, [B, H, Tq] and [B, H, Tk] (SliceSums); empty without one.
  std::span<const double> query_sums;
  std::span<const double> key_sums;
};

// Why a plan cannot run in slices ("fox(prune=true) needs all keys to decide what to leave out; set prune=false"), or
// nothing.
std::string slice_obstacle(const AttentionPlan& plan);
// Whether rows carry a sum that fixes the order of the slices: CoPE, stick_breaking.
bool carries_sum(const AttentionPlan& plan);
// Whether there is a term per token.
bool has_token_sums(const AttentionPlan& plan);

// The state of all rows, [B, H, Tq] each; out has head_dim numbers per row.
struct SliceRows {
  explicit SliceRows(const AttentionCall& call);

  std::vector<float> maximum;
  std::vector<float> sum;
  std::vector<float> seen;
  std::vector<float> carry;  // [2][B, H, Tq]
  std::vector<float> out;
};

// Adds the keys of a call to the rows of its queries. call.out and call.lse are not written.
Status attention_slice(const AttentionCall& call, const AttentionSlice& slice,
                       SliceRows& rows) noexcept;
// Writes call.out and call.lse. The keys of the call do not matter.
Status finish_slices(const AttentionCall& call, const AttentionSlice& slice,
                     SliceRows& rows) noexcept;

// What the backward of a slice reads and adds to, apart from its call.
struct SliceGradients {
  std::span<const float> carry;   // SliceRows::carry before the slice; empty without a sum
  std::span<float> prefix;        // [B, H, Tq], 0 before the first slice; empty without a sum
  std::span<double> dquery_sums;  // of AttentionSlice's sums, added to; empty without them
  std::span<double> dkey_sums;
  bool with_sinks = false;  // adds the gradients of sinks: set it for one slice of keys per row
};

// dinputs of a term per token are not written: slice_sums_backward() does that.
Status attention_slice_backward(const AttentionBackwardCall& call, const AttentionSlice& slice,
                                const SliceGradients& gradients) noexcept;

// Of a term per token: what a slice of tokens adds to the sums of the tokens after it, [B, H]; call.inputs, call.k and the
// key mask are those of the slice.
std::vector<double> slice_totals(const AttentionCall& call);
// The sums of a slice, as its queries and as its keys read them, [B, H, T]. `before`: totals of the slices before, [B, H].
struct SliceSums {
  std::vector<double> at_query;
  std::vector<double> at_key;
};
SliceSums slice_sums(const AttentionCall& call, std::span<const double> before);
// From the gradient of the sums of a slice, at_query and at_key added up, to that of the input. `after`: the sums of such
// gradients over the slices after it, [B, H].
void slice_sums_backward(const AttentionCall& call, std::span<const double> dsums,
                         std::span<const double> after, const TensorView& dinput);
// Which of the plan's inputs it is.
std::size_t token_input(const AttentionPlan& plan);

}  // namespace posenc
