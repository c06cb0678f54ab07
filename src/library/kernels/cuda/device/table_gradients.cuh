// From the gradients of tables of position logits to those of the plain queries, the embedding or
// the slopes.
#pragma once

#include "kernels/cuda/device/embedding.cuh"

namespace posenc::cuda {

// Of the 64 rows of a warpgroup. `queries` are tiles of kGroups * 64 plain queries, `scratch` holds the
// planes of 64 positions of the embedding, or a tile per plane and warpgroup; dz are the gradients of the
// thread's two rows.
template <class Kind, int kDim, int kGroups, class Logits = CopeLogits>
class TableGradient {
  using M = MmaOf<Kind>;
  static constexpr int kCount = kFloatPlanes<Kind>;
  static constexpr int kParts = kDim / 64;
  static constexpr int kThreads = kGroups * 128;

 public:
  __device__ TableGradient(const Logits& logits, std::uint32_t queries, std::uint8_t* scratch,
                           int group, const ThreadRows& mine, float* const (&dz)[2])
      : logits_(logits),
        queries_(queries),
        scratch_(scratch),
        group_(group),
        mine_(mine),
        dz_(dz) {}

  // The last entry's gradient; the entry past the end stood for it. Where there are saturated keys that no warp has added
  // up, it is what the other entries leave of the sum of the row's score gradients, which is `extra` (see row_totals).
  // Else `extra` is what is yet to be added.
  __device__ void settle(bool saturated, const float (&extra)[2]) const {
    const int npos = logits_.npos();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float others = 0.0f;
#pragma unroll 8
      for (int n = mine_.column; n < npos - 1; n += 4) others += dz_[h][n];
      others += __shfl_xor_sync(~0u, others, 1);
      others += __shfl_xor_sync(~0u, others, 2);
      __syncwarp();
      if (mine_.column == 0) {
        dz_[h][npos - 1] = extra[h] + (saturated ? -others : dz_[h][npos - 1] + dz_[h][npos]);
        dz_[h][npos] = 0.0f;
      }
    }
    __syncwarp();
  }

  // Rows without gradients, of queries that see no key, add nothing to the embedding's, whatever they hold.
  __device__ void forget_unused_queries() const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      int used = 0;
#pragma unroll 8
      for (int n = mine_.column; n < logits_.npos(); n += 4) used |= dz_[h][n] != 0.0f;
      used |= __shfl_xor_sync(~0u, used, 1);
      used |= __shfl_xor_sync(~0u, used, 2);
      if (used == 0) clear_query(mine_.row[h]);
    }
  }

  // dq += dz E^T over positions [first, first + 64), both in two parts of their bits.
  __device__ void add_to_queries(int first, Accum (&dq)[kParts]) const {
    load_embedding<M, kCount, kDim>(scratch_, logits_, first, threadIdx.x, kThreads);
    publish_smem();
    threads_sync<kThreads>();
    if constexpr (kGroups == 1) {  // the general kernels, which compute again what is not finite
      if (!embedding_is_finite()) {
        add_reached(first, dq);
        threads_sync<kThreads>();
        return;
      }
    }
    Accum x;
    read(first, x);
    Fragments<M, kCount> left;
    to_fragments(x, left);
    const std::uint32_t e = smem_address(scratch_);
    mma_begin();
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      for_each_product<kCount, kCount>([&](int i, int j) {
        multiply<M, false>(dq[d], left.part[i], e + j * kPlaneBytes<kDim> + d * kTileBytes);
      });
    }
    mma_commit();
    mma_wait();
    hold(left);
#pragma unroll
    for (int d = 0; d < kParts; ++d) pin(dq[d]);
    threads_sync<kThreads>();
  }

  // dE += q^T dz over the warpgroup's rows, added to its own sum at `to`.
  __device__ void add_to_embedding(int first, float* to) const {
    std::uint8_t* own = scratch_ + group_ * kCount * kTileBytes;
    Accum x;
    read(first, x);
    store_tiles<M, kCount>(own, mine_, x);
    publish_smem();
    group_sync(group_);
#pragma unroll
    for (int d = 0; d < kParts; ++d) {
      zero(x);
      mma_begin();
      multiply_planes<M, Planes<Kind>::kCount, kCount, true, true>(
          x, queries_ + (d * kGroups + group_) * kTileBytes, kGroups * kPlaneBytes<kDim>,
          smem_address(own), kTileBytes);
      mma_commit();
      mma_wait();
      pin(x);
      add_entries(x, 64 * d, first, to);
    }
    threads_sync<kThreads>();
  }

  // c = slope * position: the slope's gradient is that of the table weighted by positions. Four sums at
  // `to`, one per warp.
  __device__ void add_slopes(float* to) const {
    float sum = 0.0f;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      for (int n = mine_.column; n < logits_.npos(); n += 4) {
        sum = fmaf(static_cast<float>(n), dz_[h][n], sum);
      }
    }
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (mine_.lane == 0) to[threadIdx.x / 32 % 4] += logits_.scale() * sum;
  }

 private:
  // Of the 64 positions in `scratch`.
  __device__ bool embedding_is_finite() const {
    std::uint32_t bad = 0;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kParts * 512; i += kThreads) {
      bad |= not_finite<M>(reinterpret_cast<const uint4*>(scratch_)[i]);
    }
    return __syncthreads_or(bad != 0) == 0;
  }
  // dq += dz E^T over those positions that keys of the row have reached.
  __device__ void add_reached(int first, Accum (&dq)[kParts]) const {
    const int npos = logits_.npos();
#pragma unroll 1
    for (int n = first; n < min(first + 64, npos); ++n) {
#pragma unroll
      for (int i = 0; i < kParts * 32; ++i) {
        const float d = dz_[i / 2 % 2][n];
        const int channel = 64 * (i / 32) + 8 * (i / 4 % 8) + 2 * mine_.column + i % 2;
        if (d == 0.0f || channel >= logits_.dim()) continue;
        const float e = logits_.scale() * logits_.embedding()[channel * npos + n];
        dq[i / 32][i / 4 % 8][i % 4] = fmaf(d, e, dq[i / 32][i / 4 % 8][i % 4]);
      }
    }
  }
  // By the four threads of a row; the next product is behind a barrier.
  __device__ void clear_query(int row) const {
    constexpr std::uint32_t kNothing[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int i = 0; i < Planes<Kind>::kCount * kParts * 2; ++i) {
      const int plane = i / 2 / kParts;
      const int d = i / 2 % kParts;
      store_16(queries_ + plane * kGroups * kPlaneBytes<kDim> +
                   (d * kGroups + group_) * kTileBytes +
                   chunk_offset(row, mine_.column + 4 * (i % 2)),
               kNothing);
    }
  }
  __device__ void read(int first, Accum& x) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int n = first + 8 * (i / 4) + 2 * mine_.column + i % 2;
      x[i / 4][i % 4] = n < logits_.npos() ? dz_[i / 2 % 2][n] : 0.0f;
    }
  }
  // Pairs of entries where rows of `to` begin at even ones. All loads come before the first store: each
  // would wait for the one before.
  __device__ void add_entries(const Accum& x, int first_channel, int first, float* to) const {
    if (logits_.npos() % 2 == 0) {
      add_pairs<true>(x, first_channel, first, to);
    } else {
      add_pairs<false>(x, first_channel, first, to);
    }
  }
  template <bool kEven>
  __device__ void add_pairs(const Accum& x, int first_channel, int first, float* to) const {
    float2 sums[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int left = entries_left(i, first_channel, first);
      const float* from = to + offset_of(i, first_channel, first);
      sums[i] = {0.0f, 0.0f};
      if (kEven && left > 0) sums[i] = *reinterpret_cast<const float2*>(from);
      if (!kEven && left > 0) sums[i].x = from[0];
      if (!kEven && left > 1) sums[i].y = from[1];
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int left = entries_left(i, first_channel, first);
      float* at = to + offset_of(i, first_channel, first);
      const float2 sum = {fmaf(logits_.scale(), x[i / 2][2 * (i % 2)], sums[i].x),
                          fmaf(logits_.scale(), x[i / 2][2 * (i % 2) + 1], sums[i].y)};
      if (kEven && left > 0) *reinterpret_cast<float2*>(at) = sum;
      if (!kEven && left > 0) at[0] = sum.x;
      if (!kEven && left > 1) at[1] = sum.y;
    }
  }
  // Of the i-th pair of a thread's accumulators: where it belongs, and how many entries of the row there
  // are from there on.
  __device__ int offset_of(int i, int first_channel, int first) const {
    return (first_channel + mine_.row[i % 2]) * logits_.npos() + first + 8 * (i / 2) +
           2 * mine_.column;
  }
  __device__ int entries_left(int i, int first_channel, int first) const {
    if (first_channel + mine_.row[i % 2] >= logits_.dim()) return 0;
    return logits_.npos() - (first + 8 * (i / 2) + 2 * mine_.column);
  }

  Logits logits_;
  std::uint32_t queries_;
  std::uint8_t* scratch_;
  int group_;
  const ThreadRows& mine_;
  float* const (&dz_)[2];
};

}  // namespace posenc::cuda
