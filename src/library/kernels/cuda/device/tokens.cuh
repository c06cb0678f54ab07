// The term per token at a tile of scores: at_query[i] - at_key[j], of which sums over many tokens cancel. Kernels
// take both relative to the sum at one token of their block, so that float32 holds what is left.
#pragma once

#include "kernels/cuda/device/rows.cuh"

namespace posenc::cuda {

// The sums of one sequence and head.
struct TokenRow {
  const double* at_query;  // null: zeros
  const double* at_key;
  int queries;
  int keys;

  __device__ TokenRow(const AttentionParams& p, const Sequence& s, int head)
      : queries(s.queries), keys(s.keys) {
    const std::int64_t row = static_cast<std::int64_t>(s.batch) * p.heads + head;
    at_query = p.tokens.at_query == nullptr ? nullptr
                                            : p.tokens.at_query + row * p.queries + s.first_query;
    at_key = p.tokens.at_key + row * p.keys + s.first_key;
  }
  // Tokens past the last read as the last, or as 0: nothing sees them.
  __device__ double query(int i) const {
    return at_query == nullptr ? 0.0 : at_query[min(i, queries - 1)];
  }
  __device__ double key(int j) const { return j < keys ? at_key[j] : 0.0; }
  // What a block of keys is relative to: the sum at its first one as queries read it, which is finite.
  __device__ double key_base(int first) const { return query(max(first - (keys - queries), 0)); }
  // The part of a row, or of a key, relative to `base`.
  __device__ float query_part(int i, double base) const {
    return static_cast<float>(query(i) - base);
  }
  __device__ float key_part(int j, double base) const { return static_cast<float>(base - key(j)); }
};

#if defined(__CUDACC__)

// Keys' parts as an operand of the tensor cores, one step of 16 columns of a tile of keys: three bfloat16 numbers,
// whose sum is the part exactly, and zeros. A product of ones with them starts the accumulators at the parts, which
// takes no instruction of the threads that compute. A tile has four such steps, so that it serves four stages.
struct TokenTiles {
  static constexpr int kSteps = 4;
  static constexpr int bytes(int keys, int stages) {
    return (stages + kSteps - 1) / kSteps * keys * 128;
  }
  std::uint32_t base;  // a multiple of 1024
  int keys;            // of a tile

  __device__ std::uint32_t tile(int stage) const { return base + stage / kSteps * keys * 128; }
  // `part` is over the scale of scores.
  __device__ void store(int stage, int key, float part) const {
    const float rest = part - rounded(part);
    const std::uint32_t low = pack<Bf16>(part, rest);
    const std::uint32_t high = pack<Bf16>(rest - rounded(rest), 0.0f);
    const int chunk = 2 * (stage % kSteps);
    store_chunk(tile(stage) + chunk_offset(key, chunk), low, high);
    store_chunk(tile(stage) + chunk_offset(key, chunk + 1), 0, 0);
  }

 private:
  __device__ static float rounded(float x) { return __uint_as_float(pack<Bf16>(x, 0.0f) << 16); }
  __device__ static void store_chunk(std::uint32_t to, std::uint32_t low, std::uint32_t high) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %3};" ::"r"(to), "r"(low), "r"(high), "r"(0)
                 : "memory");
  }
};

#endif

#if POSENC_WGMMA

// Begins to set accumulators to the parts of a stage's keys.
template <class Scores>
__device__ inline void start_from_tokens(const TokenTiles& tiles, int stage, int column,
                                         Scores& x) {
  constexpr std::uint32_t kOne = 0x3f80;
  const std::uint32_t ones = column == 0 ? kOne << 16 | kOne : column == 1 ? kOne : 0;
  const std::uint32_t left[4] = {ones, ones, 0, 0};
  wgmma_start(x, left, step_of<false>(descriptor(tiles.tile(stage)), stage % TokenTiles::kSteps));
}

#endif

// Adds what a tile of gradients at the scores asks of the thread's two rows.
__device__ inline void add_row_sums(const Accum& ds, float (&sums)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float part[2] = {0.0f, 0.0f};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      part[0] += ds[n][2 * h];
      part[1] += ds[n][2 * h + 1];
    }
    sums[h] += part[0] + part[1];
  }
}
// The sum over the four lanes of a row.
__device__ inline float sum_over_lanes(float own) {
  const float two = own + __shfl_xor_sync(~0u, own, 1);
  return two + __shfl_xor_sync(~0u, two, 2);
}
// By the queries' kernels: sums of rows from `query` on.
__device__ inline void store_row_sums(const AttentionBackwardParams& b, const Sequence& s, int head,
                                      int query, const ThreadRows& mine, const float (&sums)[2]) {
  const AttentionParams& p = b.forward;
  const std::int64_t first =
      (static_cast<std::int64_t>(s.batch) * p.heads + head) * p.queries + s.first_query + query;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = sum_over_lanes(sums[h]);
    if (mine.column == 0 && query + mine.row[h] < s.queries) {
      b.dtoken_queries[first + mine.row[h]] = sum;
    }
  }
}

// What each of 16 neighbouring keys asks of its part, summed over the rows of the warp: of the thread's own keys, in
// every lane.
__device__ inline float sum_over_rows(const Accum& ds, int j) {
  float sum = ds[j / 2][j % 2] + ds[j / 2][2 + j % 2];
#pragma unroll
  for (int step = 4; step <= 16; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return sum;
}

}  // namespace posenc::cuda
