// The term per token on a tile of scores: at_query[i] - at_key[j], in which large sums cancel. Kernels subtract the sum at
// one token of their block from both, so that float32 is accurate enough.
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

// Keys' parts of a tile in shared memory, over the scale of scores. Loads go straight to the accumulators of one row,
// and a copy to those of the other: a load for each takes longer.
struct TokenParts {
  static constexpr int bytes(int keys) { return 4 * keys; }
  std::uint32_t base;

  __device__ void store(int key, float part) const {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(base + 4 * key), "f"(part) : "memory");
  }
  // 64 keys, from column 8 `first` on.
  __device__ void load(int first, int column, Accum& x) const {
    const std::uint32_t from = base + 32 * first + 8 * column;
#pragma unroll
    for (int m = 0; m < 8; ++m) {
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(x[m][0]), "=f"(x[m][1])
                   : "r"(from + 32 * m)
                   : "memory");
      x[m][2] = x[m][0];
      x[m][3] = x[m][1];
    }
  }
};

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
// By the queries' kernels: sums of rows from `query` on.
__device__ inline void store_row_sums(const AttentionBackwardParams& b, const Sequence& s, int head,
                                      int query, const ThreadRows& mine, const float (&sums)[2]) {
  const AttentionParams& p = b.forward;
  const std::int64_t first =
      (static_cast<std::int64_t>(s.batch) * p.heads + head) * p.queries + s.first_query + query;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = row_sum(sums[h]);
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
