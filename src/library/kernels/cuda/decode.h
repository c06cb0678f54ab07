// Split-K decoding, a few queries against many keys: the keys of a head are split among thread blocks. Each block reads
// its keys and values once for all query heads that share them, and a last launch combines the splits. CoPE needs two
// launches before that, because a position sums the gates of later keys: first scores and sums of gates per split, then
// positions from the sums of later splits.
#pragma once

#include "kernels/cuda/attention.h"

namespace posenc::cuda {

inline constexpr std::int64_t kMostDecodeQueries = 8;

// Whether launch_attention_decode serves the call: few queries, one sequence per batch entry, no dropout.
bool is_decode(const AttentionParams& params) noexcept;
std::size_t decode_workspace_bytes(const AttentionParams& params) noexcept;
Status launch_attention_decode(const AttentionParams& params, Stream stream) noexcept;

}  // namespace posenc::cuda
