// Products with a staged operand (values, keys, queries, output gradients) of which some rows are masked. Weights of masked
// rows are 0, but 0 times NaN or infinity is NaN. Such numbers are removed from the operand, and only the results that
// are not masked from them become NaN.
#pragma once

#include "kernels/cuda/device/general_block.cuh"

namespace posenc::cuda {

// By the 128 threads of the block, two per row. The first plane shows what is not finite.
template <class Kind, int kDim>
class HiddenRows {
  using M = MmaOf<Kind>;
  static constexpr int kParts = kDim / 64;

 public:
  __device__ explicit HiddenRows(const Stage& stage)
      : rows_(stage.address()),
        slot_(static_cast<int>(threadIdx.x) / 2),
        half_(static_cast<int>(threadIdx.x) % 2) {}

  __device__ bool all_finite() const {
    std::uint32_t bad = 0;
#pragma unroll
    for (int i = 0; i < kParts * 4; ++i) {
      bad |= not_finite<M>(load_16(chunk(i, 0)));
    }
    return __syncthreads_or(bad != 0) == 0;
  }

  // `sees(h, slot)`: whether the thread's row h of `to` sees a row of the operand. `to` are the channels
  // from 64 first_part on.
  template <int kOutParts, class Sees>
  __device__ void take_out(int first_part, const ThreadRows& mine, const Sees& sees,
                           Accum (&to)[kOutParts]) const {
    std::uint32_t lost[kOutParts] = {};  // bit 16 h + 2 n + e of the thread's columns 8 n + e
#pragma unroll 1
    for (int slot = 0; slot < 64; ++slot) {
      const std::uint32_t seen =
          (sees(0, slot) ? 0xffffu : 0u) | (sees(1, slot) ? 0xffff0000u : 0u);
#pragma unroll
      for (int d = 0; d < kOutParts; ++d) {
        lost[d] |= seen & columns_at(first_part + d, slot, mine.column);
      }
    }
#pragma unroll
    for (int i = 0; i < kOutParts * 32; ++i) {
      const int bit = 16 * (i / 2 % 2) + 2 * (i / 4 % 8) + i % 2;
      if ((lost[i / 32] >> bit & 1) != 0) to[i / 32][i / 4 % 8][i % 4] = NAN;
    }
    __syncthreads();
    clear();
    publish_smem();
    __syncthreads();
  }

 private:
  // Bits 2 n + e of a row's columns 8 n + 2 column + e that are not finite, twice.
  __device__ std::uint32_t columns_at(int part, int slot, int column) const {
    std::uint32_t bits = 0;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const std::uint32_t at = rows_ + part * kTileBytes + chunk_offset(slot, n) + 4 * column;
      const std::uint32_t bad = not_finite<M>(load_4(at));
      bits |= ((bad & 1u) | (bad >> 15 & 2u)) << 2 * n;
    }
    return bits | bits << 16;
  }
  __device__ std::uint32_t chunk(int i, int plane) const {
    return rows_ + plane * kPlaneBytes<kDim> + i / 4 * kTileBytes +
           chunk_offset(slot_, 4 * half_ + i % 4);
  }
  __device__ void clear() const {
#pragma unroll 1
    for (int i = 0; i < kParts * 4; ++i) {
      const uint4 first = load_16(chunk(i, 0));
      const std::uint32_t good[4] = {~not_finite<M>(first.x), ~not_finite<M>(first.y),
                                     ~not_finite<M>(first.z), ~not_finite<M>(first.w)};
#pragma unroll
      for (int plane = 0; plane < Planes<Kind>::kCount; ++plane) {
        const uint4 x = load_16(chunk(i, plane));
        store_16(chunk(i, plane), {x.x & good[0], x.y & good[1], x.z & good[2], x.w & good[3]});
      }
    }
  }

  std::uint32_t rows_;
  int slot_;
  int half_;
};

// Before `to` += weights times the staged rows, where some weights are those of hidden pairs.
template <class Kind, int kDim, int kOutParts, class Sees>
__device__ inline void leave_hidden_out(const Stage& stage, int first_part, const ThreadRows& mine,
                                        const Sees& sees, Accum (&to)[kOutParts]) {
  const HiddenRows<Kind, kDim> rows(stage);
  if (!rows.all_finite()) rows.take_out(first_part, mine, sees, to);
}

}  // namespace posenc::cuda
