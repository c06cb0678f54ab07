// Context parallelism: attention over a sequence that is split across ranks.
//
//   at::Tensor out = ring_attention(ranks, q, k, v, "rope + cope", parameters, {.causal = true});
//
// Rank r holds a contiguous slice of the tokens, the slices in the order of the ranks: q [B, H, t, D], k [B, Hkv, t, D],
// v [B, Hkv, t, Dv], inputs and key_mask of the same t tokens; t may differ between ranks. `out` is the rank's slice of the
// result of one process for the whole sequence, up to the order of float32 sums; gradients are those of the rank's slices.
// Rows process the slices of keys from their own to the first, and pass the state of the online softmax and CoPE's running
// sum on; the backward has the opposite order. docs/context_parallel.md describes the order, the communication volume and
// the memory, which is linear in t.
//
// All ranks must call it and its backward in the same order, and `ranks` must live until then. CPU only, with Gloo.
#pragma once

#include <memory>
#include <string>

#include "parallel/ranks.h"
#include "posenc/torch/ops.h"

namespace posenc::parallel {

// What a rank has sent, in bytes; messages between two ranks, not the few numbers that all ranks share.
struct RingTraffic {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
};

struct RingOptions {
  // The gradients of the encodings' parameters are summed over the ranks in the backward, as their values are the same on
  // all. False where the caller sums the gradients of all parameters afterwards.
  bool sum_parameters = true;
  std::shared_ptr<RingTraffic> traffic;  // added to, where it is given
};

// Of `options`, packed sequences, positions and keys_are_turned are refused, and so are encodings that slices do not
// serve (slice_obstacle() of posenc/kernels/attention_slices.h says why).
at::Tensor ring_attention(Ranks& ranks, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, const std::string& spec,
                          at::TensorList parameters = {}, const ops::AttentionOptions& options = {},
                          const RingOptions& ring = {});

}  // namespace posenc::parallel
