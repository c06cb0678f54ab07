// From the gradients of CoPE's tables of position logits to those of the plain queries, the embedding or
// the slopes.
#pragma once

#include "kernels/cuda/device/embedding.cuh"

namespace posenc::cuda {

// Of the 64 rows of a warpgroup. `queries` are tiles of kGroups * 64 plain queries, `scratch` holds the
// planes of 64 positions of the embedding, or a tile per plane and warpgroup; dz are the gradients of the
// thread's two rows.
template <class Kind, int kDim, int kGroups>
class TableGradient {
  using M = MmaOf<Kind>;
  static constexpr int kCount = kFloatPlanes<Kind>;
  static constexpr int kParts = kDim / 64;
  static constexpr int kThreads = kGroups * 128;

 public:
  __device__ TableGradient(const AttentionParams& p, std::uint32_t queries, std::uint8_t* scratch,
                           int group, const ThreadRows& mine, float* const (&dz)[2])
      : p_(p), queries_(queries), scratch_(scratch), group_(group), mine_(mine), dz_(dz) {}

  // The last entry's gradient: what saturated keys asked of it, and the entry past the end that stood
  // for it.
  __device__ void settle(const float (&tails)[2]) const {
    const int npos = p_.cope.npos_max;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float tail = tails[h];
      tail += __shfl_xor_sync(~0u, tail, 1);
      tail += __shfl_xor_sync(~0u, tail, 2);
      __syncwarp();
      if (mine_.column == 0) {
        dz_[h][npos - 1] += tail + dz_[h][npos];
        dz_[h][npos] = 0.0f;
      }
    }
    __syncwarp();
  }

  // dq += dz E^T over positions [first, first + 64), both in two parts of their bits.
  __device__ void add_to_queries(int first, Accum (&dq)[kParts]) const {
    load_embedding<M, kCount, kDim>(scratch_, p_.cope, p_.head_dim, first, threadIdx.x, kThreads);
    publish_smem();
    __syncthreads();
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
    __syncthreads();
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
    __syncthreads();
  }

  // c = slope * position: the slope's gradient is that of the table weighted by positions. Four sums at
  // `to`, one per warp.
  __device__ void add_slopes(float* to) const {
    float sum = 0.0f;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      for (int n = mine_.column; n < p_.cope.npos_max; n += 4) {
        sum = fmaf(static_cast<float>(n), dz_[h][n], sum);
      }
    }
    for (int step = 1; step < 32; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (mine_.lane == 0) to[threadIdx.x / 32 % 4] += p_.cope.logit_scale * sum;
  }

 private:
  __device__ void read(int first, Accum& x) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int n = first + 8 * (i / 4) + 2 * mine_.column + i % 2;
      x[i / 4][i % 4] = n < p_.cope.npos_max ? dz_[i / 2 % 2][n] : 0.0f;
    }
  }
  __device__ void add_entries(const Accum& x, int first_channel, int first, float* to) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int channel = first_channel + mine_.row[i / 2 % 2];
      const int n = first + 8 * (i / 4) + 2 * mine_.column + i % 2;
      if (channel < p_.head_dim && n < p_.cope.npos_max) {
        to[channel * p_.cope.npos_max + n] += p_.cope.logit_scale * x[i / 4][i % 4];
      }
    }
  }

  const AttentionParams& p_;
  std::uint32_t queries_;
  std::uint8_t* scratch_;
  int group_;
  const ThreadRows& mine_;
  float* const (&dz_)[2];
};

}  // namespace posenc::cuda
