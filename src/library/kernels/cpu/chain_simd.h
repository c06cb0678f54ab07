// The SIMD part of chains of steps outside the blocks of queries (ChainProblem): the keys and the matrix of a tile, their
// backward, and one query of a decoding call. All rows have whole vectors.
#pragma once

#include "kernels/cpu/attention_simd.h"

namespace posenc::cpu {

// The keys of a tile.
struct ChainTile {
  ChainProblem::Kind kind = ChainProblem::Kind::kNone;
  std::size_t dim = 0;
  std::size_t padded_dim = 0;
  std::size_t count = 0;
  Rows k;
  Rows steps;
  const float* factors = nullptr;
};

// Writes the keys as the end of the tile meets them, [count][padded_dim], and the matrix that takes a query past it.
void chain_tile(const ChainTile& tile, float* keys, float* matrix);

// Gradients of what chain_tile wrote, which are read and used up, to those of keys and steps, which are added to.
struct ChainTileGradients {
  float* keys = nullptr;
  float* matrix = nullptr;
  float* dk = nullptr;      // [count][padded_dim]
  float* dsteps = nullptr;  // of w, or of the logarithms of gates
  float* dfactors = nullptr;
};
// Memory for it, the same for every tile.
std::size_t chain_scratch_size(std::size_t dim, std::size_t padded_dim);
void chain_tile_backward(const ChainTile& tile, const ChainTileGradients& gradients,
                         float* scratch);

// Gates from their logarithms, in place.
void exp_row(float* row, std::size_t size);

// The score of a query with a key, and the key's step on the query. `step` are w, or the logarithms of gates.
float meet_key(ChainProblem::Kind kind, const float* key, const float* step, float factor,
               std::size_t padded_dim, float* query);

}  // namespace posenc::cpu
