// The list of instantiated attention kernels: tile sizes per head dimension and chain of modifiers. One source file
// compiles the kernels of a direction and head dimension.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/device/backward_space.cuh"

namespace posenc::cuda {

// Of a block of threads: warpgroups, tiles in flight, and blocks per multiprocessor that registers are
// kept low for.
struct Sizes {
  int groups;
  int stages;
  int blocks;
};

inline constexpr int kChainToeplitz = 1;
inline constexpr int kChainCope = 2;
// Each alone, and only in warp-specialised kernels.
inline constexpr int kChainTokens = 4;
inline constexpr int kChainFire = 8;
inline constexpr int kChainSticks = 32;
// Alone or with Toeplitz biases.
inline constexpr int kChainSoftcap = 16;
// Tables of many positions leave less shared memory: such calls take the compact sizes.
inline constexpr int kMostSharedBytes = 227 * 1024;

constexpr Sizes forward_sizes(int dim, int chain, bool compact) {
  const bool cope = (chain & kChainCope) != 0;
  if (dim == 256) return {1, 2, 1};
  if (compact) return {1, 3, 1};
  if (dim == 128) return cope ? Sizes{3, 3, 1} : Sizes{3, 4, 1};
  return cope ? Sizes{2, 3, 2} : Sizes{2, 4, 2};
}
// More than two stages: products overlap.
constexpr Sizes backward_query_sizes(int dim, int chain, bool compact) {
  if (compact || dim == 256) return {1, 1, 1};
  if (chain == kChainSticks) return {2, 4, 1};
  if (dim == 128) return (chain & kChainCope) == 0 ? Sizes{2, 4, 1} : Sizes{2, 2, 1};
  if ((chain & kChainCope) == 0) return {3, 4, 1};
  return chain == kChainCope ? Sizes{3, 4, 1} : Sizes{2, 4, 1};
}
// Pipeline stages of keys in warp-specialised kernels; values have one less.
constexpr int query_stream_stages(int dim, int chain) {
  return (dim == 128 ? 4 : 5) - ((chain & kChainCope) != 0 ? 1 : 0);
}
constexpr Sizes backward_key_sizes(int dim, int chain, bool compact) {
  if (dim == 256) return {1, 1, 1};
  if (compact) return {2, 1, 1};
  if ((chain & kChainCope) != 0) return dim == 64 ? Sizes{2, 4, 1} : Sizes{2, 2, 1};
  if (dim == 64) return {3, 5, 1};
  return (chain & kChainToeplitz) == 0 ? Sizes{2, 4, 1} : Sizes{2, 3, 1};
}
// Parts of 64 channels of dk and dv that a block of threads holds, and blocks that share the channels.
constexpr int backward_key_parts(int dim) { return dim == 64 ? 1 : 2; }
constexpr int backward_key_shares(int dim) { return dim / 64 / backward_key_parts(dim); }

// Up to so many queries the forward is not warp-specialised: one block takes all of them, so a producer would have
// nothing to copy ahead.
inline constexpr int kShortRows = 128;

inline int chain_of(const AttentionParams& p) {
  if (p.breaks_sticks) return kChainSticks;
  if (p.tokens.at_key != nullptr) return kChainTokens;
  if (p.fire.segments > 0) return kChainFire;
  return (p.toeplitz.table != nullptr ? kChainToeplitz : 0) |
         (p.cope.npos_max > 0 ? kChainCope : 0) | (p.softcap > 0.0f ? kChainSoftcap : 0);
}
constexpr int padded_dim(int dim) { return dim <= 64 ? 64 : dim <= 128 ? 128 : 256; }
constexpr int sequences_of(const AttentionParams& p) {
  return p.segments != nullptr ? p.segment_count : p.batch;
}
constexpr int longest_queries(const AttentionParams& p) {
  return p.segments != nullptr ? p.max_queries : p.queries;
}
// Blocks of 64 rows of a head.
constexpr int row_blocks(const AttentionParams& p) { return (longest_queries(p) + 63) / 64; }
inline int longest_keys(const AttentionParams& p) {
  return p.segments != nullptr ? p.max_keys : p.keys;
}

template <int kDim>
cudaError_t run_forward(const AttentionParams& p, cudaStream_t stream);
template <int kDim>
cudaError_t run_backward_query(const AttentionBackwardParams& b, const BackwardSpace& space,
                               cudaStream_t stream);
template <int kDim>
cudaError_t run_backward_key(const AttentionBackwardParams& b, const BackwardSpace& space,
                             cudaStream_t stream);
// Warpgroups per block that the queries' kernel will have, or 0 where its tables do not fit.
template <int kDim>
int backward_query_groups(const AttentionParams& p);

}  // namespace posenc::cuda
