// The path of calls that are not fused, and parts shared by its forward and backward.
#pragma once

#include <string>

#include "core/aligned.h"
#include "kernels/attention_plan.h"

namespace posenc {

// Why a call is not fused, or nothing.
std::string obstacle_of(const AttentionCall& call);
// Returns an error for a call that is not fused and cannot run the reference: the call must allow the reference, which
// needs unrotated keys.
Status check_path(const char* op, const AttentionCall& call, const std::string& obstacle);

// An upper bound of the memory that grows with the lengths (attention_bytes.cc).
std::int64_t forward_bytes(const AttentionCall& call, bool decodes);
std::int64_t backward_bytes(const AttentionCall& call);
// Tasks that share the queries of a key head in the backward.
std::int64_t backward_splits(const AttentionCall& call, std::size_t segments);

// Where a thread keeps the rows of a block of queries: after site 2 and the scale, before both, and the rows of
// RelativeQuery's input; the last two are empty where nothing reads them.
struct QueryRows {
  AlignedFloats& rows;
  AlignedFloats& plain;
  AlignedFloats& relative;
};
// Adds the vector that RelativeQuery has for the queries of a head.
void add_content(const AttentionSetup& setup, std::int64_t head, float* row);
// Reads them for queries block.first .. block.first + block.count - 1, and points the block at them.
void read_queries(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                  RowTurner& turner, const QueryRows& to, cpu::QueryBlock& block);

// What one thread of a forward works with, allocated before the loop so that nothing can fail inside it.
struct ForwardWorker {
  explicit ForwardWorker(const AttentionSetup& setup);

  cpu::Workspace space;
  RowTurner turner;
  AlignedFloats rows;
  AlignedFloats plain;
  AlignedFloats relative;
  AlignedFloats out;  // [kQueryBlock][padded_value_dim]
  AlignedFloats lse;  // [kQueryBlock]
};
// read_queries() into the rows of a worker.
void read_queries(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                  ForwardWorker& worker, cpu::QueryBlock& block);
// Writes the outputs and the log-sum-exps of a block: with sinks, and rotated back where values are.
void write_outputs(const AttentionSetup& setup, const Segment& s, std::int64_t head,
                   const cpu::QueryBlock& block, ForwardWorker& worker);

inline constexpr std::int64_t kDecodeChunk = 512;  // keys of a task: its rows stay in cache
// Few enough queries that the cache is better read once, row by row, than packed.
bool is_decode(const AttentionCall& call) noexcept;
// Why a call is no decode step, or nothing.
std::string decode_obstacle(const AttentionCall& call);
Status decode_attention(const AttentionCall& call);

// The checks of a backward call, and its fused path, of a slice or of a whole call (slice is null). `may_widen`: gradients
// may be float32 whatever their tensors are, as parts of a sum should be.
Status check_backward(const AttentionBackwardCall& call, bool may_widen) noexcept;
Status run_backward(const AttentionBackwardCall& call, const AttentionSlice* slice,
                    const SliceGradients& carried);

// Through the float64 reference: slow, and able to do everything.
Status reference_attention(const AttentionCall& call);
Status reference_attention_backward(const AttentionBackwardCall& call);

}  // namespace posenc
