// Shared by the general kernels: thread blocks of one warpgroup, one operand at a time in shared memory.
#pragma once

#include "kernels/cuda/device/general_scores.cuh"
#include "kernels/cuda/device/planes.cuh"

namespace posenc::cuda {

// Room for an operand, and for the parts of 64 positions of CoPE's embedding.
template <class Kind, int kDim>
inline constexpr int kStagedBytes = kFloatPlanes<Kind>* kPlaneBytes<kDim>;

// Copies that were begun are in shared memory, for threads and tensor cores.
__device__ inline void settle_copies() {
  copies_commit();
  copies_wait<0>();
  publish_smem();
  __syncthreads();
}

// Which of the grid's blocks this one is; the grid is (slots, heads, sequences).
__device__ inline std::int64_t block_slot() {
  return (static_cast<std::int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

// Shared memory for one operand of 64 rows.
class Stage {
 public:
  __device__ explicit Stage(std::uint32_t address) : address_(address) {}
  [[nodiscard]] __device__ std::uint32_t address() const { return address_; }

  // Waits until no thread reads the old operand; `copy_more` starts further copies.
  template <class Kind, int kDim, bool kKeys, class CopyMore>
  __device__ void load(const RowsOf<ElementOf<Kind>>& rows, int first, int count, int dim,
                       CopyMore&& copy_more) {
    __syncthreads();
    copy_more();
    load_operand<Kind, kDim, kKeys>(address_, rows, first, count, dim);
    settle_copies();
  }

 private:
  std::uint32_t address_;
};

// x = A X^T with A of 64 rows at `rows`, and X the staged ones.
template <class Kind, int kDim>
__device__ inline void multiply_staged(const Stage& stage, std::uint32_t rows, Accum& x) {
  zero(x);
  mma_begin();
#pragma unroll
  for (int d = 0; d < kDim / 64; ++d) {
    multiply_planes<MmaOf<Kind>, Planes<Kind>::kCount, Planes<Kind>::kCount, false, false>(
        x, rows + d * kTileBytes, kPlaneBytes<kDim>, stage.address() + d * kTileBytes,
        kPlaneBytes<kDim>);
  }
  mma_commit();
  mma_wait();
  pin(x);
}

// d += A X with X the staged rows.
template <class Kind, int kDim>
__device__ inline void add_product(const Stage& stage, FragmentsOf<Kind>& a,
                                   Accum (&d)[kDim / 64]) {
  add_rows_product<MmaOf<Kind>, Planes<Kind>::kCount>(d, a, stage.address(), kPlaneBytes<kDim>);
  hold(a);
}

}  // namespace posenc::cuda
