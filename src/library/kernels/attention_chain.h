// The parts of PaTH and Wall (path.h, wall.h) that are computed outside the tiles of scores.
#pragma once

#include "kernels/attention_gradients.h"

namespace posenc {

// Refuses attention that is not causal; needs no tensor data.
Status check_chain(const AttentionCall& call);

// Fills setup.chain; keys must be packed. Decoding reads the inputs as they are.
void fill_chain(AttentionSetup& setup);
// Bytes of it, and of what a task of the backward keeps for the keys of a head.
std::int64_t chain_bytes(const AttentionCall& call, std::int64_t row_bytes);
std::int64_t chain_task_bytes(const AttentionCall& call, std::int64_t row_bytes);

// Scores of the query at a place with the keys from its own down to `first`. `query` is [padded_dim] and used up; `key`
// and `step` are memory for a row.
struct ChainedRow {
  float* query;
  float* key;
  float* step;
};
void chain_scores(const AttentionSetup& setup, const Segment& s, std::int64_t kv_head,
                  std::int64_t place, std::int64_t first, const ChainedRow& row, float* scores);

// From the gradients of keys and matrices of tiles, summed over tasks, to dk; writes those of the inputs.
void write_chain_gradients(const AttentionBackwardCall& call, const AttentionSetup& setup,
                           AlignedFloats& scratch, TaskGradients& sum);
// Memory for it; nothing without a chain.
AlignedFloats chain_scratch(const AttentionSetup& setup);

}  // namespace posenc
