#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/device/dispatch.h"
#include "kernels/cuda/device/elements.cuh"

namespace posenc::cuda {
namespace {

constexpr int kColumns = 32;      // of a block, one per thread of a warp
constexpr int kLanes = 8;         // warps, which share the block's rows
constexpr int kRowsOfBlock = 64;  // as long as that gives no more shares than kMostShares
constexpr std::int64_t kMostShares = 256;

std::int64_t shares_of(const ColumnSums& p) {
  return std::clamp<std::int64_t>((p.rows + kRowsOfBlock - 1) / kRowsOfBlock, 1, kMostShares);
}

// Over the warps of a block, in their order; the first warp gets the sum.
__device__ float block_sum(float x) {
  __shared__ float parts[kLanes][kColumns];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = x;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) sum += parts[lane][threadIdx.x];
  return sum;
}

// partial[share][0 or 1][column]
template <class T, bool kWeighted>
__global__ void __launch_bounds__(kColumns* kLanes)
    shares_kernel(const __grid_constant__ ColumnSums p, float* partial) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t share = (p.rows + gridDim.y - 1) / gridDim.y;
  const std::int64_t first = share * blockIdx.y;
  const std::int64_t end = min(first + share, p.rows);
  float sum = 0.0f;
  float weighted = 0.0f;
  if (column < p.columns) {
#pragma unroll 8
    for (std::int64_t row = first + threadIdx.y; row < end; row += kLanes) {
      const std::int64_t at = row * p.columns + column;
      const float y = to_float(static_cast<const T*>(p.y)[at]);
      sum += y;
      if constexpr (kWeighted) {
        weighted = fmaf(y, (p.x[at] - p.mean[row]) * p.inverse[row], weighted);
      }
    }
  }
  sum = block_sum(sum);
  if constexpr (kWeighted) weighted = block_sum(weighted);
  if (threadIdx.y != 0 || column >= p.columns) return;
  constexpr int kOutputs = kWeighted ? 2 : 1;
  partial[blockIdx.y * kOutputs * p.columns + column] = sum;
  if constexpr (kWeighted) partial[(blockIdx.y * kOutputs + 1) * p.columns + column] = weighted;
}

// Entries are the columns of `sums`, then those of `weighted`.
__global__ void __launch_bounds__(kColumns* kLanes)
    totals_kernel(const __grid_constant__ ColumnSums p, const float* partial, int shares,
                  std::int64_t entries) {
  const std::int64_t entry = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  float sum = 0.0f;
  if (entry < entries) {
#pragma unroll 8
    for (int share = static_cast<int>(threadIdx.y); share < shares; share += kLanes) {
      sum += partial[share * entries + entry];
    }
  }
  sum = block_sum(sum);
  if (threadIdx.y != 0 || entry >= entries) return;
  (entry < p.columns ? p.sums : p.weighted - p.columns)[entry] = sum;
}

unsigned blocks_of(std::int64_t columns) {
  return static_cast<unsigned>((columns + kColumns - 1) / kColumns);
}

}  // namespace

std::size_t column_sums_bytes(const ColumnSums& p) {
  return static_cast<std::size_t>(shares_of(p) * p.columns * (p.x != nullptr ? 2 : 1)) *
         sizeof(float);
}

Status column_sums(const ColumnSums& p, Stream stream) noexcept {
  if (p.columns == 0) return {};
  const auto shares = static_cast<unsigned>(shares_of(p));
  const std::int64_t entries = p.columns * (p.x != nullptr ? 2 : 1);
  auto* partial = static_cast<float*>(p.workspace);
  auto* const queue = static_cast<cudaStream_t>(stream);
  const dim3 threads(kColumns, kLanes);
  with_type(p.type, [&]<class T>(T) {
    const dim3 grid(blocks_of(p.columns), shares);
    if (p.x != nullptr) {
      shares_kernel<T, true><<<grid, threads, 0, queue>>>(p, partial);
    } else {
      shares_kernel<T, false><<<grid, threads, 0, queue>>>(p, partial);
    }
  });
  totals_kernel<<<blocks_of(entries), threads, 0, queue>>>(p, partial, static_cast<int>(shares),
                                                           entries);
  return launch_status("column_sums");
}

}  // namespace posenc::cuda
