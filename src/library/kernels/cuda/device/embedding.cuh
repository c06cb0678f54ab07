// Tables of position logits z = q E, for CoPE and for queries times distances. E is split into a rounded value and rounded
// remainders, so that tensor cores keep at least 16 bits of it.
#pragma once

#include "kernels/cuda/device/planes.cuh"
#include "kernels/cuda/device/scores.cuh"

namespace posenc::cuda {

// What position logits of a head are made from: npos entries of dim channels, or slopes times positions.
struct CopeLogits {
  const AttentionParams& p;
  int head;
  __device__ int npos() const { return p.cope.npos_max; }
  __device__ int dim() const { return p.head_dim; }
  __device__ float scale() const { return p.cope.logit_scale; }
  __device__ const float* slopes() const { return p.cope.slopes; }
  __device__ const float* embedding() const { return p.cope.pos_emb; }
};
struct RelativeLogits {
  const AttentionParams& p;
  int head;
  __device__ int npos() const { return p.relative.entries; }
  __device__ int dim() const { return p.relative.rank; }
  __device__ float scale() const { return p.relative.factor; }
  __device__ static const float* slopes() { return nullptr; }
  __device__ const float* embedding() const {
    return p.relative.table + head * p.relative.head_stride;
  }
};

// A value and its rests into the planes of [channel][position].
template <class M, int kCount, int kDim>
__device__ inline void store_parts_of(std::uint8_t* to, int channel, int position, float x) {
  const std::uint32_t at = channel / 64 * kTileBytes + chunk_offset(channel % 64, position / 8) +
                           position % 8 * sizeof(M);
#pragma unroll
  for (int part = 0; part < kCount; ++part) {
    *reinterpret_cast<M*>(to + part * kPlaneBytes<kDim> + at) = static_cast<M>(x);
    x -= round_to<M>(x);
  }
}

// Positions [first, first + 64) of E as kCount planes of kDim / 64 tiles of [64 channels][64 positions].
template <class M, int kCount, int kDim, class Logits>
__device__ inline void load_embedding(std::uint8_t* to, const Logits& logits, int first, int thread,
                                      int threads) {
  constexpr int kBatch = 8;  // loads in flight: little else hides their latency
#pragma unroll 1
  for (int start = thread; start < kDim * 64; start += kBatch * threads) {
    float x[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int channel = (start + b * threads) / 64;
      const int n = first + (start + b * threads) % 64;
      const bool real = channel < logits.dim() && n < logits.npos();
      x[b] = real ? logits.scale() * logits.embedding()[channel * logits.npos() + n] : 0.0f;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = start + b * threads;
      if (i < kDim * 64) store_parts_of<M, kCount, kDim>(to, i / 64, i % 64, x[b]);
    }
  }
}

// Tables of the block's rows (64 per warpgroup) in `tables`, from the plain queries' tiles of
// kGroups * 64 rows at `q`, by warpgroups 0 to kGroups - 1; one below only helps to copy. `scratch`
// holds the planes of 64 positions. Ends with a barrier.
template <class Kind, int kDim, int kGroups, int kThreads = kGroups * 128, class Logits>
__device__ inline void fill_tables(const Logits& logits, std::uint32_t q, std::uint8_t* scratch,
                                   float* tables, int group) {
  const int npos = logits.npos();
  const int stride = logit_stride(npos);
  const ThreadRows mine;
  float* row[2] = {tables + (64 * group + mine.row[0]) * stride,
                   tables + (64 * group + mine.row[1]) * stride};
  if (logits.slopes() != nullptr && group >= 0) {
    const float slope = logits.slopes()[logits.head] * logits.scale();
    for (int n = mine.column; n <= npos; n += 4) {
      row[0][n] = row[1][n] = slope * static_cast<float>(min(n, npos - 1));
    }
  }
  for (int first = 0; logits.slopes() == nullptr && first < npos; first += 64) {
    load_embedding<MmaOf<Kind>, kFloatPlanes<Kind>, kDim>(scratch, logits, first, threadIdx.x,
                                                          kThreads);
    publish_smem();
    threads_sync<kThreads>();
    if (group >= 0) {
      Accum z;
      zero(z);
      mma_begin();
#pragma unroll
      for (int d = 0; d < kDim / 64; ++d) {
        multiply_planes<MmaOf<Kind>, Planes<Kind>::kCount, kFloatPlanes<Kind>, false, true>(
            z, q + (d * kGroups + group) * kTileBytes, kGroups * kPlaneBytes<kDim>,
            smem_address(scratch) + d * kTileBytes, kPlaneBytes<kDim>);
      }
      mma_commit();
      mma_wait();
      pin(z);
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int n = first + 8 * (i / 4) + 2 * mine.column + i % 2;
        const int h = i / 2 % 2;
        if (n < npos) row[h][n] = z[i / 4][i % 4];
        if (n == npos - 1) row[h][npos] = z[i / 4][i % 4];
      }
    }
    threads_sync<kThreads>();
  }
  threads_sync<kThreads>();
}

}  // namespace posenc::cuda
