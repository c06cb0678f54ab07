// Finds the tiles of keys whose weight is negligible under a term per token, by the bound of posenc/encodings/fox.h, for
// kernels that skip them. Two launches, which read queries, keys and sums once.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/launch.h"

namespace posenc::cuda {

// What fill_token_prune() takes, in bytes aligned to 256.
std::size_t token_prune_bytes(const AttentionParams& p) noexcept;

// `p`: sizes, scale, queries, keys, sequences and the running sums of a term per token. Sets the tables of kept tiles in
// `tokens`, which point into `memory`. Where the bound does not hold nothing is left out: heads whose sums rise
// somewhere or are not finite, and with norms that are not finite.
Status fill_token_prune(const AttentionParams& p, void* memory, TokenTable& tokens,
                        Stream stream) noexcept;

}  // namespace posenc::cuda
