#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/cuda/device/elements.cuh"
#include "kernels/cuda/device/token_prune.cuh"
#include "kernels/cuda/token_prune.h"

namespace posenc::cuda {
namespace {

constexpr const char* kOp = "token_prune";
constexpr int kThreads = 128;
constexpr int kSearchThreads = 256;

// Of all sequences: bits of norms, which are not negative, so that their order is that of whole numbers.
struct PruneSpace {
  std::uint32_t* queries;  // [sequences, H]
  std::uint32_t* keys;     // [sequences, Hkv]
  std::uint32_t* rises;    // [sequences, H]: whether sums rise somewhere, or are not finite
  std::int32_t* first;     // [sequences, H, query tiles]
  std::int32_t* end;       // [sequences, H, key tiles]
};

int query_tiles_of(const AttentionParams& p) { return row_blocks(p); }
int key_tiles_of(const AttentionParams& p) { return (longest_keys(p) + kTile - 1) / kTile; }

std::size_t lay_out(const AttentionParams& p, void* memory, PruneSpace& space) {
  auto* words = static_cast<std::uint32_t*>(memory);
  std::size_t used = 0;
  const auto take = [&](std::int64_t each) {
    auto* piece = words == nullptr ? nullptr : words + used;
    used += static_cast<std::size_t>(sequences_of(p)) * static_cast<std::size_t>(each);
    return piece;
  };
  space.queries = take(p.heads);
  space.keys = take(p.kv_heads);
  space.rises = take(p.heads);
  space.first = reinterpret_cast<std::int32_t*>(take(std::int64_t{p.heads} * query_tiles_of(p)));
  space.end = reinterpret_cast<std::int32_t*>(take(std::int64_t{p.heads} * key_tiles_of(p)));
  return (used * sizeof(std::uint32_t) + 255) / 256 * 256;
}

// The largest square of a norm among 64 rows; infinity for what is not finite. A row is read by 2^n lanes of a warp.
template <class T>
__device__ float largest_square(const RowsOf<T>& rows, int first, int count, int dim) {
  constexpr int kEach = 16 / sizeof(T);
  const int chunks = dim / kEach;
  int width = 1;
  while (width < chunks && width < 32) width *= 2;
  const int lane = static_cast<int>(threadIdx.x) % width;
  float largest = 0.0f;
  for (int r = static_cast<int>(threadIdx.x) / width; r < kTile; r += kThreads / width) {
    float sum = 0.0f;
    for (int c = lane; first + r < count && c < chunks; c += width) {
      const auto x = load_elements<T, kEach>(
          rows.data + static_cast<std::int64_t>(first + r) * rows.stride + c * kEach);
#pragma unroll
      for (int i = 0; i < kEach; ++i) sum = fmaf(to_float(x.at[i]), to_float(x.at[i]), sum);
    }
    for (int step = width / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    largest = sum <= largest ? largest : (sum < INFINITY ? sum : INFINITY);
  }
  return largest;
}

// Of the keys' sums of a tile and the one before it.
__device__ bool rises_in(const AttentionParams& p, const Sequence& s, int head, int first) {
  const TokenRow row(p, s, head);
  bool rises = false;
  for (int j = first + static_cast<int>(threadIdx.x); j < min(first + kTile, s.keys);
       j += kThreads) {
    const double own = row.at_key[j];
    rises |= !(own <= row.at_key[max(j - 1, 0)] && own > -INFINITY);
  }
  return rises;
}

// A block has a tile of a head of queries, or of keys behind them.
template <class T>
__global__ void __launch_bounds__(kThreads)
    prune_norms_kernel(const __grid_constant__ AttentionParams p, const PruneSpace space) {
  const Sequence s = sequence_of(p, static_cast<int>(blockIdx.z));
  const int first = static_cast<int>(blockIdx.x) * kTile;
  const bool keys = static_cast<int>(blockIdx.y) >= p.heads;
  const int head = static_cast<int>(blockIdx.y) - (keys ? p.heads : 0);
  const RowsOf<T> rows = keys ? rows_of<T>(p.k, s.batch, head, s.first_key)
                              : rows_of<T>(p.q, s.batch, head, s.first_query);
  const float largest = largest_square<T>(rows, first, keys ? s.keys : s.queries, p.head_dim);
  std::uint32_t* to =
      keys ? space.keys + s.index * p.kv_heads + head : space.queries + s.index * p.heads + head;
  if (largest > 0.0f) atomicMax(to, __float_as_uint(largest));
  if (!keys && rises_in(p, s, head, first)) space.rises[s.index * p.heads + head] = 1;
}

__global__ void __launch_bounds__(kSearchThreads)
    prune_search_kernel(const __grid_constant__ AttentionParams p, const PruneSpace space,
                        int query_tiles, int key_tiles) {
  const Sequence s = sequence_of(p, static_cast<int>(blockIdx.y));
  const int head = static_cast<int>(blockIdx.x);
  const std::int64_t at = static_cast<std::int64_t>(s.index) * p.heads + head;
  const int kv_head = head / (p.heads / p.kv_heads);
  const auto norm = [](std::uint32_t square) {
    return sqrt(static_cast<double>(__uint_as_float(square)));
  };
  const KeptTiles kept{
      TokenRow(p, s, head),
      prune_reach(norm(space.queries[at]), norm(space.keys[s.index * p.kv_heads + kv_head]),
                  p.scale, s.keys),
      space.rises[at] == 0};
  std::int32_t* first = space.first + at * query_tiles;
  const int own_tiles = (s.queries + kTile - 1) / kTile;
  for (int i = static_cast<int>(threadIdx.x); i < query_tiles; i += kSearchThreads) {
    first[i] = i < own_tiles && s.keys > 0 ? kept.first_of(i) : 0;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < key_tiles; i += kSearchThreads) {
    space.end[at * key_tiles + i] = KeptTiles::end_of(first, own_tiles, i);
  }
}

template <class T>
void launch_norms(const AttentionParams& p, const PruneSpace& space, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(std::max(query_tiles_of(p), key_tiles_of(p))),
                  static_cast<unsigned>(p.heads + p.kv_heads),
                  static_cast<unsigned>(sequences_of(p)));
  prune_norms_kernel<T><<<grid, kThreads, 0, stream>>>(p, space);
}

}  // namespace

std::size_t token_prune_bytes(const AttentionParams& p) noexcept {
  PruneSpace space{};
  return lay_out(p, nullptr, space);
}

Status fill_token_prune(const AttentionParams& p, void* memory, TokenTable& tokens,
                        Stream stream) noexcept {
  if (p.tokens.at_query == nullptr || p.tokens.at_key == nullptr || memory == nullptr) {
    return {StatusCode::kInvalidArgument,
            "[token_prune] needs the sums of a term per token, and memory"};
  }
  if (p.queries == 0 || p.keys == 0) return {};
  if (p.heads + p.kv_heads > 65535 || sequences_of(p) > 65535) {
    return {StatusCode::kUnsupported,
            "[token_prune] serves up to 65535 sequences, and heads of queries and keys together"};
  }
  PruneSpace space{};
  const std::size_t bytes = lay_out(p, memory, space);
  const auto queue = static_cast<cudaStream_t>(stream);
  if (cudaMemsetAsync(memory, 0, bytes, queue) != cudaSuccess) return launch_status(kOp);
  if (p.element == Element::kFloat32) {
    launch_norms<float>(p, space, queue);
  } else if (p.element == Element::kFloat16) {
    launch_norms<__half>(p, space, queue);
  } else {
    launch_norms<__nv_bfloat16>(p, space, queue);
  }
  const dim3 grid(static_cast<unsigned>(p.heads), static_cast<unsigned>(sequences_of(p)));
  prune_search_kernel<<<grid, kSearchThreads, 0, queue>>>(p, space, query_tiles_of(p),
                                                          key_tiles_of(p));
  tokens.first_kept = space.first;
  tokens.end_kept = space.end;
  tokens.query_tiles = query_tiles_of(p);
  tokens.key_tiles = key_tiles_of(p);
  return launch_status(kOp);
}

}  // namespace posenc::cuda
